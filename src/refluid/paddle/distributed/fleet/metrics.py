"""`paddle.distributed.fleet.metrics`: what layers counted, over all workers of a fleet.

Each is given as an array, a variable, or the name of one in a scope (the global one unless given).
util: who adds up, `fleet.util` unless given.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from refluid.core.scope import Scope, global_scope
from refluid.fluid.incubate.fleet.utils.metrics import area
from refluid.paddle.distributed.fleet.base.fleet_base import fleet

__all__ = ["acc", "auc", "mae", "max", "min", "mse", "rmse", "sum"]


def sum(input: Any, scope: Scope | None = None, util: Any = None) -> Any:
    """The sum over all workers, an array of the shape of the input."""
    return _over_all(input, scope, util, "sum")


def max(input: Any, scope: Scope | None = None, util: Any = None) -> Any:
    """The largest of all workers', an array of the shape of the input."""
    return _over_all(input, scope, util, "max")


def min(input: Any, scope: Scope | None = None, util: Any = None) -> Any:
    """The smallest of all workers', an array of the shape of the input."""
    return _over_all(input, scope, util, "min")


def auc(stat_pos: Any, stat_neg: Any, scope: Scope | None = None, util: Any = None) -> float:
    """The area under the ROC curve of the buckets that `paddle.static.auc` keeps."""
    return area(sum(stat_pos, scope, util), sum(stat_neg, scope, util))


def mae(abserr: Any, total_ins_num: Any, scope: Scope | None = None, util: Any = None) -> float:
    """The mean of absolute errors, of their sum and the number of samples."""
    return _quotient(abserr, total_ins_num, scope, util)


def mse(sqrerr: Any, total_ins_num: Any, scope: Scope | None = None, util: Any = None) -> float:
    """The mean of squared errors."""
    return _quotient(sqrerr, total_ins_num, scope, util)


def rmse(sqrerr: Any, total_ins_num: Any, scope: Scope | None = None, util: Any = None) -> float:
    """The root of the mean of squared errors."""
    return math.sqrt(_quotient(sqrerr, total_ins_num, scope, util))


def acc(correct: Any, total: Any, scope: Scope | None = None, util: Any = None) -> float:
    """The share of samples that are right."""
    return _quotient(correct, total, scope, util)


def _quotient(part: Any, whole: Any, scope: Scope | None, util: Any) -> float:
    return float(np.sum(sum(part, scope, util))) / float(np.sum(sum(whole, scope, util)))


def _over_all(given: Any, scope: Scope | None, util: Any, mode: str) -> Any:
    if not isinstance(given, np.ndarray | np.generic | int | float | list | tuple):
        name = str(getattr(given, "name", given))
        cell = (scope or global_scope()).find_var(name)
        if cell is None or cell.value is None:
            raise ValueError(f"variable {name} has no value in this scope")
        given = np.array(cell.get_tensor())
    found = np.asarray(given)
    shape = found.shape
    return np.asarray((util or fleet.util).all_reduce(found.reshape(-1), mode)).reshape(shape)
