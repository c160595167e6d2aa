"""`StructurePruner`: which filters of a parameter are cut out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Pruner", "StructurePruner"]

Array = npt.NDArray[Any]


class Pruner:
    """Says what of a parameter is cut out."""

    def __init__(self) -> None:
        pass

    def prune(self, param: Any) -> Any:
        """To be written by subclasses."""
        raise NotImplementedError(f"{self.__class__.__name__}.prune")


class StructurePruner(Pruner):
    """Cuts whole groups out of parameters: along an axis, those of the smallest norm first.

    pruning_axis, criterions: axis and criterion by the parameter's name, which may be a pattern;
    "*" is any other. The one criterion is "l1_norm".
    """

    def __init__(self, pruning_axis: Mapping[str, int], criterions: Mapping[str, str]) -> None:
        super().__init__()
        self.pruning_axis, self.criterions = dict(pruning_axis), dict(criterions)
        unknown = sorted(set(self.criterions.values()) - {"l1_norm"})
        if unknown:
            raise ValueError(f"criterions: {', '.join(unknown)} is not known; l1_norm is")

    def axis_of(self, name: str) -> int:
        """The axis of a parameter; ValueError where no pattern is for it."""
        return int(_chosen("pruning_axis", self.pruning_axis, name))

    def cal_pruned_idx(
        self, name: str, param: Array, ratio: float, axis: int | None = None
    ) -> Array:
        """The indices along the axis that are cut out where `ratio` of them are; one stays."""
        _chosen("criterions", self.criterions, name)
        along = self.axis_of(name) if axis is None else axis
        others = tuple(one for one in range(param.ndim) if one != along)
        norms: Array = np.abs(param).sum(others)
        order: Array = norms.argsort(kind="stable")
        return order[: min(round(len(norms) * ratio), len(norms) - 1)]

    def prune_tensor(
        self, tensor: Array, pruned_idx: Sequence[int] | Array, pruned_axis: int, lazy: bool = False
    ) -> Array:
        """A tensor without those indices along an axis. lazy: they are 0 instead."""
        if not lazy:
            return np.delete(tensor, np.asarray(pruned_idx, np.int64), pruned_axis)
        made = tensor.copy()
        np.moveaxis(made, pruned_axis, 0)[np.asarray(pruned_idx, np.int64)] = 0
        return made


def _chosen(what: str, table: Mapping[str, Any], name: str) -> Any:
    if name in table:
        return table[name]
    for pattern, value in table.items():
        if pattern != "*" and fnmatchcase(name, pattern):
            return value
    if "*" not in table:
        raise ValueError(f"{what} says nothing of {name!r}, and has no '*'")
    return table["*"]
