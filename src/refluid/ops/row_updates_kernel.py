"""Updates of the rows that a sparse gradient has, as compiled code.

`row_updates.py` is the interface. Parameters and moments are [height, width], values [n, width],
numbers of their element type. All return False, and touch nothing, where a row isn't in the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.core.compiled import compiled
from refluid.core.row_order import in_order


@compiled
def descend_rows(param: Any, index: Any, value: Any, rate: Any) -> Any:
    """param[index[i]] -= rate * value[i], one after the other."""
    count, width = value.shape
    height = param.shape[0]
    for i in range(count):
        if index[i] < 0 or index[i] >= height:
            return False
    for i in range(count):
        row = index[i]
        for column in range(width):
            param[row, column] -= rate * value[i, column]
    return True


@compiled
def _move(param: Any, moment1: Any, moment2: Any, row: Any, grad: Any, numbers: Any) -> None:
    rate, keep1, keep2, add1, add2, epsilon = numbers
    for column in range(grad.shape[0]):
        slope = grad[column]
        first = keep1 * moment1[row, column] + add1 * slope
        second = keep2 * moment2[row, column] + add2 * slope * slope
        moment1[row, column] = first
        moment2[row, column] = second
        param[row, column] -= rate * first / (np.sqrt(second) + epsilon)


@compiled
def adam_rows(param: Any, moment1: Any, moment2: Any, index: Any, value: Any, numbers: Any) -> Any:
    """Adam on each row of `index` once, by the sum of its values, in ascending order.

    numbers: rate corrected for bias, beta1, beta2, 1 - beta1, 1 - beta2, epsilon.
    """
    count, width = value.shape
    order = np.empty(count, np.int32)
    if not in_order(index, param.shape[0], order):
        return False
    total = np.empty(width, value.dtype)
    i = 0
    while i < count:
        position = order[i]
        row = index[position]
        i += 1
        if i == count or index[order[i]] != row:
            _move(param, moment1, moment2, row, value[position], numbers)
            continue
        total[:] = value[position]
        while i < count and index[order[i]] == row:
            for column in range(width):
                total[column] += value[order[i], column]
            i += 1
        _move(param, moment1, moment2, row, total, numbers)
    return True
