"""Loops for products whose right factor is what the windows of a convolution see of images.

A line of that factor, a column of the product, is one channel at one place of the window; its
numbers are what lies there for each window of each image, in order. The factor is nowhere: each
panel of it is laid from the images. These are told by their address and lie pixel by pixel, each
with all its channels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.kernels.compiled import compiled
from refluid.kernels.panels.laying import copy_16, counters_at, floats_at, prefetch
from refluid.kernels.panels.loops import multiply_panels
from refluid.kernels.teams import for_team, taken


@compiled
def lay_channels(images: Any, window: Any, column: Any, size: Any, panel: Any) -> None:
    """Lays 16 lines of a panel, which are channels at one place of the window; 0 outside images.

    window: height, width and channels of images; how many windows lie below and beside each other;
    how many places a window has beside each other; how far windows are apart, how far the first
    one is outside, and how far its places are apart, each downwards and to the right. size: as of
    `lay_panel`.
    """
    high, wide, channels, rows, columns, places, down, right, above, before, below, beside = window
    width, first, depth = size
    place, channel = column // channels, column % channels
    top, left = place // places * below - above, place % places * beside - before
    image, rest = first // (rows * columns), first % (rows * columns)
    row, begin, out, number = rest // columns, rest % columns, panel, 0
    while number < depth:
        y, x = row * down + top, begin * right + left
        count = min(depth - number, columns - begin)
        source = images + 4 * (((image * high + y) * wide + x) * channels + channel)
        for _ in range(count):
            if 0 <= y < high and 0 <= x < wide:
                prefetch((source + 4 * 8 * right * channels,))
                copy_16((source, out))
            else:
                nothing = floats_at(out)
                for lane in range(16):
                    nothing[lane] = np.float32(0)
            x, source, out = x + right, source + 4 * right * channels, out + 4 * width
        number, begin, row = number + count, 0, row + 1
        if row == rows:
            row, image = 0, image + 1


@for_team
def multiply_windows(
    counters: Any, left: Any, images: Any, window: Any, size: Any, scratch: Any, result: Any
) -> None:
    """The product of a left factor in panels and of what windows see of images: else as
    `multiply_left`."""
    shared = counters_at(counters)
    height, width, panels, first, depth = size
    columns, mine = result[3], scratch + 4 * taken(shared[1:]) * panels * width * depth
    begin = taken(shared) * panels * width
    while begin < columns:
        end = min(columns, begin + panels * width)
        for column in range(begin, end, width):
            panel = mine + 4 * (column - begin) * depth
            for line in range(column, min(columns, column + width), 16):
                behind = panel + 4 * (line - column)
                lay_channels(images, window, line, (width, first, depth), behind)
        for column in range(begin, end, width):
            panel = mine + 4 * (column - begin) * depth
            multiply_panels(left, (height, depth), panel, result, column, (images, 0, 0))
        begin = taken(shared) * panels * width
