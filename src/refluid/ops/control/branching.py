"""Values in branches: rows or sequences split by a mask, and one of several values chosen."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.control.control import select_gradient
from refluid.ops.describing import like
from refluid.ops.registry import GradOp, gradient, operator
from refluid.ops.sequence.picking import pick
from refluid.ops.signature import AnyValue


def _names(names: list[str]) -> list[str]:
    return [name + GRAD for name in names]


def _split_gradient(op: Operator) -> list[GradOp]:
    inputs = {
        "X": op.input("X"),
        "Mask": op.input("Mask"),
        "InTrue": _names(op.output("OutTrue")),
        "InFalse": _names(op.output("OutFalse")),
    }
    return [GradOp("merge_lod_tensor", inputs, {"Out": _names(op.input("X"))})]


def _merge_gradient(op: Operator) -> list[GradOp]:
    inputs = {"X": _names(op.output("Out")), "Mask": op.input("Mask")}
    outputs = {"OutTrue": _names(op.input("InTrue")), "OutFalse": _names(op.input("InFalse"))}
    return [GradOp("split_lod_tensor", inputs, outputs)]


def _chosen(lod: Levels, level: int, mask: Tensor) -> tuple[Tensor, Levels]:
    """Rows and levels of the sequences of `level` for which the mask holds."""
    rows, below = pick(lod[level:], mask.nonzero().reshape(-1))
    above: list[Offsets] = []
    kept = mask.to(torch.int64)
    for offsets in reversed(lod[:level]):
        before = torch.cat((kept.new_zeros(1), kept.cumsum(0)))[offsets.tensor()]
        kept = before.diff()
        above.insert(0, Offsets(before.tolist()))
    return rows, (*above, *below)


def _mask(Mask: Tensor, count: int) -> Tensor:
    mask = Mask.detach().reshape(-1).bool().cpu()
    if len(mask) != count:
        raise EnforceNotMet(f"Mask has {len(mask)} elements for {count} rows or sequences")
    return mask


@operator(
    "split_lod_tensor",
    outputs="OutTrue OutFalse",
    makes_lod="OutTrue OutFalse",
    maker=_split_gradient,
    infer=like(OutTrue="X", OutFalse="X"),
)
def split_lod_tensor(
    X: Tensor, Mask: Tensor, *, lod_X: Levels, level: int = 0
) -> tuple[Tensor, Tensor, Levels, Levels]:
    """The sequences of X for which Mask holds, and the others; rows where X has no LoD.

    level: of which LoD level Mask has an element per sequence.
    """
    lod = lod_X if level < len(lod_X) else ()
    mask = _mask(Mask, len(lod[level]) if lod else X.shape[0])
    rows, levels = _chosen(lod, level if lod else 0, mask)
    others, other_levels = _chosen(lod, level if lod else 0, ~mask)
    first, second = (X.index_select(0, one.to(X.device)) for one in (rows, others))
    return first, second, levels, other_levels


def merge_lod_tensor(
    X: Tensor,
    Mask: Tensor,
    InTrue: Tensor,
    InFalse: Tensor,
    *,
    lod_X: Levels,
    lod_InTrue: Levels,
    lod_InFalse: Levels,
    level: int = 0,
) -> tuple[Tensor, Levels]:
    """The inverse of `split_lod_tensor`: from InTrue where Mask holds, from InFalse elsewhere.

    X says which levels lie above `level`; the branches may have other sequences below.
    """
    mask = Mask.detach().reshape(-1).bool().cpu()
    below = tuple(
        Offsets.of_lengths(one.lengths + other.lengths)
        for one, other in zip(*_branches(mask, level, lod_InTrue, lod_InFalse), strict=True)
    )
    places = torch.where(mask, mask.cumsum(0) - 1, (~mask).cumsum(0) - 1 + mask.sum())
    order, levels = pick(below, places)
    both = _rows(InTrue, InFalse)
    if len(order) != both.shape[0]:
        raise EnforceNotMet(
            f"merge_lod_tensor: the branches have {both.shape[0]} rows where the mask of "
            f"{len(mask)} elements needs {len(order)}"
        )
    return both.index_select(0, order.to(both.device)), (*lod_X[:level], *levels)


def _rows(one: Tensor, other: Tensor) -> Tensor:
    """Both, one below the other; a branch that took no rows may have another width."""
    parts = [part for part in (one, other) if part.shape[0]] or [one]
    return torch.cat(parts)


def _branches(mask: Tensor, level: int, one: Levels, other: Levels) -> tuple[Levels, Levels]:
    """Levels of both branches from `level` on; those of an empty branch may be missing."""
    first, second = one[level:], other[level:]
    empty = Offsets([0])
    if not bool(mask.any()):
        first = (empty,) * len(second)
    elif bool(mask.all()):
        second = (empty,) * len(first)
    return first, second


operator(
    "merge_lod_tensor",
    outputs="Out",
    lod="",
    makes_lod="Out",
    maker=_merge_gradient,
    infer=like(Out="InTrue"),
)(merge_lod_tensor)
operator(
    "merge_lod_tensor_infer",
    outputs="Out",
    lod="",
    makes_lod="Out",
    uses=None,
    infer=like(Out="InTrue"),
)(merge_lod_tensor)


@operator(
    "select_input",
    outputs="Out",
    lod="",
    makes_lod="Out",
    maker=select_gradient,
    infer=like(Out="X"),
    views={"Out": "X"},
)
def select_input(
    X: list[AnyValue], Mask: Tensor, *, lods_X: list[Levels]
) -> tuple[AnyValue, Levels]:
    """X[Mask], which may have no value as long as nobody reads it."""
    number = int(Mask)
    if not 0 <= number < len(X):
        raise EnforceNotMet(f"select_input: Mask chooses branch {number} of {len(X)}")
    return X[number], lods_X[number]


@operator(
    "rnn_memory_helper",
    outputs="Out",
    uses="X Out",
    views={"Out": "X"},
    infer=like(Out="X"),
)
def rnn_memory_helper(X: Tensor, *, dtype: int = 5) -> Tensor:
    """X: gives a variable of a recurrent block a second name."""
    return X


@gradient("rnn_memory_helper", views={"d_X": "d_Out"})
def rnn_memory_helper_grad(
    X: Tensor, Out: Tensor, d_Out: Tensor | None, *, dtype: int = 5
) -> Tensor:
    """d_Out, or zeros where no gradient came."""
    return torch.zeros_like(Out) if d_Out is None else d_Out
