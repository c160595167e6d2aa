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
from refluid.kernels.panels.loops import lay_panel, multiply_panels
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


@compiled
def lay_windows(images: Any, window: Any, column: Any, columns: Any, size: Any, panel: Any) -> None:
    """Lays one panel, from a column of so many on: as of `lay_channels`."""
    width = size[0]
    for line in range(column, min(columns, column + width), 16):
        lay_channels(images, window, line, size, panel + 4 * (line - column))


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
            lay_windows(images, window, column, columns, (width, first, depth), panel)
        for column in range(begin, end, width):
            panel = mine + 4 * (column - begin) * depth
            multiply_panels(left, (height, depth), panel, result, column, (images, 0, 0))
        begin = taken(shared) * panels * width


@compiled
def coming(part: Any, turn: Any, tiles: Any, follows: Any) -> Any:
    """What comes into the caches while a right panel is multiplied, the so-manieth one by so many
    tiles: a part of both factors from the following window on. As of `multiply_panels`."""
    factor, pitch, rows, images, window = part
    channels, down, right = window[2], window[6], window[7]
    turns = (rows // 16 + tiles - 1) // tiles
    if turn < turns:
        line = 16 * turn * tiles
        return factor + 4 * (follows * pitch + line), pitch, (rows - line) // 16
    line = 16 * (turn - turns) * tiles
    apart = right * channels
    return images + 4 * (follows * down * apart + line), apart, (channels - line) // 16


@for_team
def multiply_groups(
    counters: Any,
    factor: Any,
    shape: Any,
    images: Any,
    window: Any,
    size: Any,
    scratch: Any,
    results: Any,
) -> None:
    """Products of a left factor and of what windows see of images, one of each group of windows.

    For results that caches hold whole, of many windows: a thread lays both factors of a group for
    itself, so many windows at a time, and nobody waits for others meanwhile. factor, shape: the
    left one, as of `lay_panel`. size: height and width of panels; how many windows are laid at a
    time, how many a group has, and all; rows and columns of a result. results: the address of the
    first.
    """
    shared = counters_at(counters)
    height, width, depth, group, windows, rows, columns = size
    left_numbers = (rows + height - 1) // height * height * depth
    left = scratch + 4 * taken(shared[1:]) * (left_numbers + width * depth)
    panel = left + 4 * left_numbers
    place = taken(shared)
    while place * group < windows:
        begin, end = place * group, min(windows, (place + 1) * group)
        out = results + 4 * place * rows * columns
        for first in range(begin, end, depth):
            deep = min(depth, end - first)
            for some in range(0, deep, 32):  # so few lie side by side in the nearest cache
                few = min(32, deep - some)
                for row in range(0, rows, height):
                    behind = left + 4 * (row * deep + some * height)
                    lay_panel(factor, shape, row, (height, first + some, few), behind)
            adds = 1 if first > begin else 0
            result = out, columns, rows, columns, out, columns, adds
            for column in range(0, columns, width):
                part = factor, shape[2], rows, images, window
                ahead = coming(part, column // width, (rows + height - 1) // height, first + deep)
                if first + deep >= end:
                    ahead = images, 0, 0
                lay_windows(images, window, column, columns, (width, first, deep), panel)
                multiply_panels(left, (height, deep), panel, result, column, ahead)
        place = taken(shared)
