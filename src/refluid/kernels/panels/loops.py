"""Loops that lay factors of products as panels, and that multiply panels.

Matrices of float32 are told by their addresses. A factor has a shape besides: (lines, inner, pitch,
across). Lines are rows of the left factor and columns of the right one; the lines, or `across` the
numbers of each, are `pitch` numbers apart, and the others lie side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.kernels.compiled import compiled
from refluid.kernels.panels.laying import (
    copy_8,
    copy_16,
    counters_at,
    floats_at,
    prefetch,
    turn_square,
)
from refluid.kernels.panels.tiles import high, low, middle
from refluid.kernels.teams import for_team, taken


@compiled
def lay_panel(factor: Any, shape: Any, line: Any, size: Any, panel: Any) -> None:
    """Lays one panel at an address, number by number of its lines.

    size: how many lines it has, from which number of the lines on, and how many of those. Lines
    that the factor doesn't have are 0.
    """
    width, first, depth = size
    lines, _inner, pitch, across = shape
    here, rounded = min(width, lines - line), (width + 7) // 8 * 8
    begin = factor + 4 * (first * pitch + line if across else line * pitch + first)
    by_line, by_number = (1, pitch) if across else (pitch, 1)
    # By vectors of eight lines. What they write beyond a panel's width is written over by those
    # that come then, so the last numbers are laid one by one.
    done = 0
    if line + rounded <= lines:
        if across and width >= 16:
            done = depth
            for k in range(depth):
                prefetch((begin + 4 * (k + 16) * pitch,))
                for j in range(0, width, 16):
                    copy_16((begin + 4 * (k * pitch + j), panel + 4 * (k * width + j)))
        elif across:
            done = depth - 1
            for k in range(done):
                prefetch((begin + 4 * (k + 16) * pitch,))
                for j in range(rounded - 8, -1, -8):
                    copy_8((begin + 4 * (k * pitch + j), panel + 4 * (k * width + j)))
        else:
            done = (depth - 1) // 8 * 8
            for k in range(0, done, 8):
                for j in range(rounded - 8, -1, -8):
                    target = panel + 4 * (k * width + j)
                    turn_square((begin + 4 * (j * pitch + k), pitch, target, width))
    x, out = floats_at(begin), floats_at(panel)
    for k in range(done, depth):
        for j in range(here):
            out[k * width + j] = x[j * by_line + k * by_number]
        for j in range(here, width):
            out[k * width + j] = np.float32(0)


@for_team
def lay_panels(counter: Any, factor: Any, shape: Any, size: Any, panels: Any) -> None:
    """Lays all panels of a factor one after the other; size: as of `lay_panel`."""
    shared = counters_at(counter)
    width, _first, depth = size
    line = taken(shared) * width
    while line < shape[0]:
        lay_panel(factor, shape, line, size, panels + 4 * line * depth)
        line = taken(shared) * width


@compiled
def multiply_panels(left: Any, size: Any, right: Any, result: Any, column: Any, ahead: Any) -> None:
    """The columns of a result that one right panel makes with all left ones, from `column` on.

    left, right: the addresses of panels; size: their height, and how many numbers each line has.
    ahead: what comes into the caches meanwhile, a vector of each row by one tile, the next ones by
    the next tile: the address, how far its rows are apart, and how many vectors a row has.
    """
    height, depth = size
    out, pitch, rows, columns, more, step, adds = result
    begin, down, vectors = ahead
    for row in range(0, rows, height):
        panel, place = left + 4 * row * depth, out + 4 * (row * pitch + column)
        source, rest = more + 4 * (row * step + column), columns - column
        number, coming, apart = row // height, right, 0
        if number < vectors:
            coming, apart = begin + 64 * number, down
        tile = panel, right, depth, place, pitch, source, step, adds, rows - row, rest
        high((*tile, coming, apart))


@compiled
def multiply_few(kind: Any, left: Any, size: Any, right: Any, result: Any, column: Any) -> None:
    """`multiply_panels` of few left panels, all by a part of the right one's lines after the other.

    kind: which of the low tiles makes them. size: the height and the width of panels, how many
    numbers each line has, and how many a part.
    """
    height, width, depth, part = size
    out, pitch, rows, columns, more, step, adds = result
    for first in range(0, depth, part):
        deep, begin = min(part, depth - first), right + 4 * first * width
        for row in range(0, rows, height):
            panel = left + 4 * (row * depth + first * height)
            place, rest = out + 4 * (row * pitch + column), columns - column
            source, apart, plus = more + 4 * (row * step + column), step, adds
            if first > 0:
                source, apart, plus = place, pitch, 1
            tile = panel, begin, deep, place, pitch, source, apart, plus, rows - row, rest
            behind = begin + 4 * deep * width
            if kind == 0:
                middle((*tile, behind, width))
            else:
                low((*tile, behind, width))


@for_team
def multiply_left(
    counters: Any, left: Any, factor: Any, shape: Any, size: Any, scratch: Any, result: Any
) -> None:
    """The product of a left factor in panels and a right one, which each thread lays for itself.

    counters: the address of two, which are 0 before. left: that of panels of `height` rows. factor:
    that of the right one; `width` lines of it are a panel, and so many panels are laid at once;
    first, depth: which numbers of the lines. scratch: that of memory for so many panels of each
    thread. result: the address of the rows, how far they are apart, how many rows and columns
    there are; the address of what is added to the products, how far its rows are apart, and
    whether it is.
    """
    shared = counters_at(counters)
    height, width, panels, first, depth = size
    columns, mine = result[3], scratch + 4 * taken(shared[1:]) * panels * width * depth
    pitch, across = shape[2], shape[3]
    begin = taken(shared) * panels * width
    while begin < columns:
        end = min(columns, begin + panels * width)
        for column in range(begin, end, width):
            panel = mine + 4 * (column - begin) * depth
            lay_panel(factor, shape, column, (width, first, depth), panel)
        follows = taken(shared) * panels * width
        for column in range(begin, end, width):
            panel, coming = mine + 4 * (column - begin) * depth, follows + column - begin
            vectors = width // 16 if across and coming < columns else 0
            ahead = factor + 4 * (first * pitch + coming), pitch, vectors
            multiply_panels(left, (height, depth), panel, result, column, ahead)
        begin = follows


@for_team
def multiply_right(
    counters: Any, factor: Any, shape: Any, right: Any, size: Any, scratch: Any, result: Any
) -> None:
    """The product of a left factor of few rows, which each thread lays for itself, and a right one
    in panels: as `multiply_left`, of all numbers of the lines, `part` of them at a time."""
    shared = counters_at(counters)
    kind, height, width, panels, depth, part = size
    rows, columns = result[2], result[3]
    mine = scratch + 4 * taken(shared[1:]) * ((rows + height - 1) // height * height) * depth
    begin = taken(shared) * panels * width
    if begin < columns:
        for row in range(0, rows, height):
            lay_panel(factor, shape, row, (height, 0, depth), mine + 4 * row * depth)
    while begin < columns:
        for column in range(begin, min(columns, begin + panels * width), width):
            panel = right + 4 * column * depth
            multiply_few(kind, mine, (height, width, depth, part), panel, result, column)
        begin = taken(shared) * panels * width
