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

    numbers: rate corrected for bias, beta1, beta2, 1 - beta1, 1 - beta2, epsilon. To work with:
    spare, int32 [2 n + COUNTS], and total, [width].
    """
    # One function: calls and slices would count references to the arrays, for each row.
    kind = param.dtype.type
    rate, keep1, keep2 = kind(numbers[0]), kind(numbers[1]), kind(numbers[2])
    add1, add2, epsilon = kind(numbers[3]), kind(numbers[4]), kind(numbers[5])
    count, width = index.shape[0], param.shape[1]
    order = spare[:count]
    if not in_order(index, param.shape[0], order, spare[count:]):
        return False
    i, asked, last = 0, 0, -1
    while i < count:
        while asked < min(i + AHEAD, count):
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
        while i < count and np.uint64(index[np.uint64(order[np.uint64(i)])]) == row:
            place = np.uint64(order[np.uint64(i)])
            for column in range(width):
                total[column] += value[place, column]
            i += 1
        for column in range(width):
            slope = total[column]
            moment1[row, column] = first = keep1 * moment1[row, column] + add1 * slope
            moment2[row, column] = second = keep2 * moment2[row, column] + add2 * slope * slope
            param[row, column] -= rate * first / (np.sqrt(second) + epsilon)
    return True


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
    power1[0] *= power1.dtype.type(numbers[0])
    power2[0] *= power2.dtype.type(numbers[1])
    # As Python has it, in double precision whatever the elements are.
    left1, left2 = 1.0 - np.float64(power1[0]), 1.0 - np.float64(power2[0])
    corrected = np.float64(rate[0]) * np.sqrt(left2) / left1
    now = (corrected, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4])
    return adam_rows(param, moment1, moment2, index, value, now, spare, total)


@compiled
def adam_step_tables(places: Any, numbers: Any, spare: Any, total: Any) -> Any:
    """`adam_step_rows` of one table after the other; the first that lacks a row of its own, or -1.

    places, int64 [12, tables]: addresses of param, moment1, moment2, power1, power2, index, value
    and rate, then height, width, the number of rows, and how far apart rows of value begin.
    numbers, spare and total as there, with room for the largest; all but index and spare have the
    type of `total`.
    """
    for table in range(places.shape[1]):
        height, width, count = places[8, table], places[9, table], places[10, table]
        if not adam_step_rows(
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
        ):
            return table
    return -1
