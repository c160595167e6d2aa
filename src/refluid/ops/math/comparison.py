"""Comparisons and logic; the results are bool."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from refluid.ops.math.broadcasting import infer_comparison
from refluid.ops.math.elementwise import align
from refluid.ops.registry import operator
from refluid.ops.sparse.sparse import on_values

Compare = Callable[[Tensor, Tensor], Tensor]

_COMPARE: dict[str, tuple[Compare, str]] = {
    "equal": (torch.eq, "X == Y."),
    "not_equal": (torch.ne, "X != Y."),
    "less_than": (torch.lt, "X < Y."),
    "less_equal": (torch.le, "X <= Y."),
    "greater_than": (torch.gt, "X > Y."),
    "greater_equal": (torch.ge, "X >= Y."),
}
_LESS_BY = {"less_than": 0, "less_equal": -1}
_LOGIC: dict[str, tuple[Compare, str]] = {
    "logical_and": (torch.logical_and, "X and Y."),
    "logical_or": (torch.logical_or, "X or Y."),
    "logical_xor": (torch.logical_xor, "Either X or Y."),
}


def _define_comparison(name: str, compute: Compare, doc: str) -> None:
    def body(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor:
        return compute(X, align(X, Y, axis))

    body.__name__, body.__doc__ = name, doc
    operator(
        name,
        outputs="Out",
        uses=None,
        extra={"force_cpu": False},
        infer=infer_comparison,
        less_by=_LESS_BY.get(name),
    )(body)


def _define_logic(name: str, compute: Compare, doc: str) -> None:
    def body(X: Tensor, Y: Tensor) -> Tensor:
        return compute(X, Y)

    body.__name__, body.__doc__ = name, doc
    operator(name, outputs="Out", uses=None)(body)


for _name, (_compute, _doc) in _COMPARE.items():
    _define_comparison(_name, _compute, _doc)
for _name, (_compute, _doc) in _LOGIC.items():
    _define_logic(_name, _compute, _doc)


@operator("logical_not", outputs="Out", uses=None)
def logical_not(X: Tensor) -> Tensor:
    """Not X."""
    return torch.logical_not(X)


@operator("isfinite", outputs="Out", uses=None, lod="")
@on_values()
def isfinite(X: Tensor) -> Tensor:
    """Whether all elements are finite, bool of shape (1,)."""
    return torch.isfinite(X).all().reshape(1)


@operator("isnan", outputs="Out", uses=None, lod="")
def isnan(X: Tensor) -> Tensor:
    """Whether any element is not a number, bool of shape (1,)."""
    return torch.isnan(X).any().reshape(1)


@operator("isinf", outputs="Out", uses=None, lod="")
def isinf(X: Tensor) -> Tensor:
    """Whether any element is infinite, bool of shape (1,)."""
    return torch.isinf(X).any().reshape(1)
