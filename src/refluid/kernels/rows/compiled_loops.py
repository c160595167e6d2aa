"""Lookups of rows, and updates of the rows that a sparse gradient has, as compiled code.

`lookup.py` and `updates.py` are the interface. Tables, parameters and moments are
[height, width], values [n, width]; numbers are taken as numbers of their element type. All return
False, and touch nothing, where a row isn't in the table. Of longer rows of values Adam leaves what
is beyond the width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.kernels.compiled import compiled
from refluid.kernels.rows.addresses import array_at
from refluid.kernels.rows.order import in_order
from refluid.kernels.rows.prefetch import AHEAD, ask_for_row, ask_for_start
from refluid.kernels.teams import for_team, taken


@compiled
def are_rows(index: Any, height: Any) -> Any:
    """Whether a table of that height has all of these rows."""
    outside = 0
    for row in index:
        outside += (row < 0) | (row >= height)
    return outside == 0


@compiled
def look_up(table: Any, index: Any, out: Any) -> Any:
    """out[i] = table[index[i]]."""
    count, (height, width) = index.shape[0], table.shape
    if not are_rows(index, height):
        return False
    for i in range(count):
        if i + AHEAD < count:
            ask_for_row(table, index[i + AHEAD])
        row = np.uint64(index[i])
        for column in range(width):
            out[i, column] = table[row, column]
    return True


@compiled
def descend_rows(param: Any, index: Any, value: Any, rate: Any) -> Any:
    """param[index[i]] -= rate * value[i], one after the other."""
    count, width = value.shape
    if not are_rows(index, param.shape[0]):
        return False
    factor = param.dtype.type(rate)
    for i in range(count):
        if i + AHEAD < count:
            ask_for_row(param, index[i + AHEAD])
        row = np.uint64(index[i])
        for column in range(width):
            param[row, column] -= factor * value[i, column]
    return True


@compiled
def adam_between(
    param: Any,
    moment1: Any,
    moment2: Any,
    index: Any,
    value: Any,
    numbers: Any,
    order: Any,
    i: Any,
    end: Any,
    total: Any,
) -> None:
    """Adam on the rows at the places of `order` from `i` to before `end`, where a row begins.

    Each row changes once, by the sum of its values. numbers: rate corrected for bias, beta1, beta2,
    1 - beta1, 1 - beta2, epsilon. To work with: total, [width].
    """
    # One function: calls and slices would count references to the arrays, for each row.
    kind = param.dtype.type
    rate, keep1, keep2 = kind(numbers[0]), kind(numbers[1]), kind(numbers[2])
    add1, add2, epsilon = kind(numbers[3]), kind(numbers[4]), kind(numbers[5])
    width, asked, last = param.shape[1], i, -1
    while i < end:
        while asked < min(i + AHEAD, end):
            at = order[np.uint64(asked)]
            ask_for_start(value, at, width)
            if index[np.uint64(at)] != last:
                last = index[np.uint64(at)]
                ask_for_row(param, last)
                ask_for_row(moment1, last)
                ask_for_row(moment2, last)
            asked += 1
        place = np.uint64(order[np.uint64(i)])
        row = np.uint64(index[place])
        for column in range(width):
            total[column] = value[place, column]
        i += 1
        while i < end and np.uint64(index[np.uint64(order[np.uint64(i)])]) == row:
            place = np.uint64(order[np.uint64(i)])
            for column in range(width):
                total[column] += value[place, column]
            i += 1
        for column in range(width):
            slope = total[column]
            moment1[row, column] = first = keep1 * moment1[row, column] + add1 * slope
            moment2[row, column] = second = keep2 * moment2[row, column] + add2 * slope * slope
            param[row, column] -= rate * first / (np.sqrt(second) + epsilon)


@compiled
def adam_rows(
    param: Any,
    moment1: Any,
    moment2: Any,
    index: Any,
    value: Any,
    numbers: Any,
    spare: Any,
    total: Any,
) -> Any:
    """Adam on each row of `index` once, by the sum of its values, in ascending order.

    numbers, total: as of `adam_between`. To work with: spare, int32 [2 n + COUNTS].
    """
    count = index.shape[0]
    order = spare[:count]
    if not in_order(index, param.shape[0], order, spare[count:]):
        return False
    adam_between(param, moment1, moment2, index, value, numbers, order, 0, count, total)
    return True


@compiled
def where_a_row_begins(index: Any, order: Any, place: Any) -> Any:
    """The first place from `place` on where a row begins, or the end."""
    while 0 < place < index.shape[0]:
        if index[np.uint64(order[place])] != index[np.uint64(order[place - 1])]:
            return place
        place += 1
    return place


@for_team
def adam_parts(
    counter: Any,
    param: Any,
    moment1: Any,
    moment2: Any,
    index: Any,
    value: Any,
    numbers: Any,
    order: Any,
    totals: Any,
) -> None:
    """`adam_between` of all rows, in as many parts as `totals` has rows: [parts, width or more]."""
    parts, count = totals.shape[0], index.shape[0]
    part = taken(counter)
    while part < parts:
        begin = where_a_row_begins(index, order, part * count // parts)
        end = where_a_row_begins(index, order, (part + 1) * count // parts)
        own = totals[part]
        adam_between(param, moment1, moment2, index, value, numbers, order, begin, end, own)
        part = taken(counter)


@compiled
def stepped_rate(power1: Any, power2: Any, rate: Any, numbers: Any) -> Any:
    """power1[0] *= beta1, power2[0] *= beta2; rate[0] corrected for bias by them.

    numbers: beta1, beta2 and others.
    """
    power1[0] *= power1.dtype.type(numbers[0])
    power2[0] *= power2.dtype.type(numbers[1])
    # As Python has it, in double precision whatever the elements are.
    left1, left2 = 1.0 - np.float64(power1[0]), 1.0 - np.float64(power2[0])
    return np.float64(rate[0]) * np.sqrt(left2) / left1


@compiled
def step_rate(power1: Any, power2: Any, rate: Any, numbers: Any, corrected: Any) -> None:
    """corrected[0] = `stepped_rate`."""
    corrected[0] = stepped_rate(power1, power2, rate, numbers)


@compiled
def adam_step_rows(
    param: Any,
    moment1: Any,
    moment2: Any,
    index: Any,
    value: Any,
    power1: Any,
    power2: Any,
    rate: Any,
    numbers: Any,
    spare: Any,
    total: Any,
) -> Any:
    """power1[0] *= beta1, power2[0] *= beta2, then `adam_rows` by rate[0] corrected for bias.

    numbers: beta1, beta2, 1 - beta1, 1 - beta2, epsilon.
    """
    corrected = stepped_rate(power1, power2, rate, numbers)
    now = (corrected, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4])
    return adam_rows(param, moment1, moment2, index, value, now, spare, total)


@compiled
def adam_step_table(places: Any, table: Any, numbers: Any, spare: Any, total: Any) -> Any:
    """`adam_step_rows` of one of several tables.

    places, int64 [12, tables]: addresses of param, moment1, moment2, power1, power2, index, value
    and rate, then height, width, the number of rows, and how far apart rows of value begin.
    numbers, spare and total as there, with room for the largest; all but index and spare have the
    type of `total`.
    """
    height, width, count = places[8, table], places[9, table], places[10, table]
    return adam_step_rows(
        array_at(places[0, table], total, (height, width)),
        array_at(places[1, table], total, (height, width)),
        array_at(places[2, table], total, (height, width)),
        array_at(places[5, table], places, (count,)),
        array_at(places[6, table], total, (count, places[11, table])),
        array_at(places[3, table], total, (1,)),
        array_at(places[4, table], total, (1,)),
        array_at(places[7, table], total, (1,)),
        numbers,
        spare,
        total,
    )


@compiled
def adam_step_tables(places: Any, numbers: Any, spare: Any, total: Any) -> Any:
    """`adam_step_table` of all before the first that lacks a row of its own; which one that is."""
    for table in range(places.shape[1]):
        if not adam_step_table(places, table, numbers, spare, total):
            return table
    return places.shape[1]


@compiled
def lacking_table(places: Any) -> Any:
    """The first table that lacks a row of its own, or how many there are."""
    for table in range(places.shape[1]):
        if not are_rows(array_at(places[5, table], places, (places[10, table],)), places[8, table]):
            return table
    return places.shape[1]


@for_team
def adam_table_parts(
    counter: Any, members: Any, tables: Any, places: Any, numbers: Any, spares: Any, totals: Any
) -> None:
    """`adam_step_table` of the first `tables`, which have all of their rows.

    members: a counter, too. spares, totals: those of each thread that does anything.
    """
    own = taken(members)
    if own >= spares.shape[0]:
        return
    spare, total = spares[own], totals[own]
    table = taken(counter)
    while table < tables:
        adam_step_table(places, table, numbers, spare, total)
        table = taken(counter)
