"""Loops that multiply few lines by a large matrix, a group of its rows after the other.

Matrices of float32 are told by their addresses and how far their rows are apart; the numbers of the
large one's rows lie side by side, and there are as many rows as groups have.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.kernels.compiled import compiled
from refluid.kernels.few_rows.writing import (
    LINES,
    ROWS,
    add_to_1,
    add_to_2,
    add_to_3,
    add_to_4,
    dot_by_1,
    dot_by_2,
    dot_by_3,
    dot_by_4,
    span_rows,
)
from refluid.kernels.panels.laying import counters_at, floats_at
from refluid.kernels.teams import for_team, taken

# Rows whose products are added up by themselves.
TERMS = 512


@compiled
def add_group(lines: Any, a: Any, down: Any, right: Any, b: Any, out: Any, count: Any) -> None:
    """Adds what one group of rows makes of all lines; b, out: address and pitch."""
    begin, pitch = b
    place, apart = out
    for line in range(0, lines, LINES):
        source, target = a + 4 * line * down, place + 4 * line * apart
        given, few = (source, down, right, begin, pitch, target, apart, count), lines - line
        if few >= 4:
            add_to_4(given)
        elif few == 3:
            add_to_3(given)
        elif few == 2:
            add_to_2(given)
        else:
            add_to_1(given)


@compiled
def add_sums(lines: Any, sums: Any, part: Any, out: Any, count: Any) -> None:
    """Adds sums, `part` numbers of each line, to lines of which so many count; then they are 0."""
    place, apart = out
    for line in range(lines):
        own, target = floats_at(sums + 4 * line * part), floats_at(place + 4 * line * apart)
        for column in range(count):
            target[column] += own[column]
            own[column] = np.float32(0)


@for_team
def add_products(counters: Any, a: Any, b: Any, out: Any, size: Any, scratch: Any) -> None:
    """out += a · b. a: the address, how far its lines and their numbers are apart; b, out: address
    and pitch.

    counters: the address of two that are 0 before. size: how many lines, rows and columns, how many
    columns a thread takes at a time, and of how many all lines are multiplied first. scratch: the
    address of `part` numbers for each line and thread, which are 0.
    """
    shared = counters_at(counters)
    begin, down, right = a
    source, pitch = b
    target, apart = out
    lines, rows, columns, part, block = size
    sums = scratch + 4 * taken(shared[1:]) * lines * part
    first = taken(shared) * part
    while first < columns:
        end = min(columns, first + part)
        for row in range(0, rows, ROWS):
            own = begin + 4 * row * right
            for column in range(first, end, block):
                place = source + 4 * (row * pitch + column)
                into, count = sums + 4 * (column - first), min(block, end - column)
                add_group(lines, own, down, right, (place, pitch), (into, part), count)
            # Long sums lose digits.
            if row % TERMS == TERMS - ROWS or row + ROWS >= rows:
                add_sums(lines, sums, part, (target + 4 * first, apart), end - first)
        first = taken(shared) * part


@compiled
def dot_group(lines: Any, a: Any, b: Any, out: Any, down: Any, right: Any, count: Any) -> None:
    """Adds the products of all lines and one group of rows; a, b: address and pitch."""
    begin, apart = a
    source, pitch = b
    for line in range(0, lines, LINES):
        own, target = begin + 4 * line * apart, out + 4 * line * down
        given, few = (own, apart, source, pitch, target, down, right, count), lines - line
        if few >= 4:
            dot_by_4(given)
        elif few == 3:
            dot_by_3(given)
        elif few == 2:
            dot_by_2(given)
        else:
            dot_by_1(given)


@for_team
def dot_products(counter: Any, a: Any, b: Any, out: Any, size: Any) -> None:
    """out += a · bᵀ. a, b: address and pitch; out: the address, how far its lines and their numbers
    are apart.

    size: how many lines, rows and columns, how many rows a thread takes at a time, and of how many
    columns all lines are multiplied first.
    """
    shared = counters_at(counter)
    begin, apart = a
    source, pitch = b
    target, down, right = out
    lines, rows, columns, part, block = size
    first = taken(shared) * part
    while first < rows:
        for row in range(first, min(rows, first + part), ROWS):
            for column in range(0, columns, block):
                own, place = begin + 4 * column, source + 4 * (row * pitch + column)
                into, count = target + 4 * row * right, min(block, columns - column)
                dot_group(lines, (own, apart), (place, pitch), into, down, right, count)
        first = taken(shared) * part


@for_team
def span_products(counter: Any, a: Any, b: Any, out: Any, size: Any) -> None:
    """out = aᵀ · b. a: the address, how far its lines and their numbers are apart; b, out: address
    and pitch.

    size: how many lines, rows of out and columns, and how many rows a thread takes at a time.
    """
    shared = counters_at(counter)
    begin, down, right = a
    source, pitch = b
    target, apart = out
    lines, rows, columns, part = size
    first = taken(shared) * part
    while first < rows:
        for row in range(first, min(rows, first + part), ROWS):
            own, into = begin + 4 * row * right, target + 4 * row * apart
            span_rows((own, down, right, source, pitch, into, apart, lines, columns))
        first = taken(shared) * part
