"""Rows and sequences repeated as often as another value has sequences or rows."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ops.registry import gradient, operator
from refluid.ops.sequence.levels import infer_from
from refluid.ops.sequence.padded import ranges, take_rows


def _reference(lod_Y: Levels, ref_level: int) -> Offsets:
    if not lod_Y or not -1 <= ref_level < len(lod_Y):
        raise EnforceNotMet(f"Y has {len(lod_Y)} sequence levels; ref_level is {ref_level}")
    return lod_Y[ref_level]


def _expansion(X: Tensor, lod_X: Levels, by: Offsets) -> tuple[Tensor | None, Levels]:
    """The rows of X that the result is made of (None for all of them), and its sequences."""
    if len(lod_X) > 1:
        raise EnforceNotMet(f"X may have one sequence level but has {len(lod_X)}")
    groups = len(lod_X[0]) if lod_X else X.shape[0]
    if groups != len(by):
        what = "sequences" if lod_X else "rows"
        raise EnforceNotMet(f"X has {groups} {what} but the level of Y {len(by)}")
    if by.all_are(1):
        return None, lod_X
    owners = by.owners(X.device) if not lod_X else by.owners()
    if not lod_X:
        return owners, ()
    lengths = lod_X[0].length_tensor()[owners].tolist()
    repeated = Offsets.of_lengths(lengths)
    starts = lod_X[0].tensor(X.device)[owners.to(X.device)]
    return ranges(starts, repeated), (repeated,)


@operator(
    "sequence_expand",
    outputs="Out",
    lod="",
    makes_lod="Out",
    differentiable="X",
    views={"Out": "X"},
    infer=infer_from({"Out": lambda X: (-1, *X[1:])}, levels={"Out": lambda X: X}),
)
def sequence_expand(
    X: Tensor, Y: Tensor, *, lod_X: Levels, lod_Y: Levels, ref_level: int = -1
) -> tuple[Tensor, Levels]:
    """Row or sequence i of X as many times as sequence i of Y's level `ref_level` is long.

    X with sequences gives sequences, X without gives a plain tensor. -1 is Y's last level.
    """
    index, lod = _expansion(X, lod_X, _reference(lod_Y, ref_level))
    return (X if index is None else take_rows(X, index)), lod


@gradient("sequence_expand", views={"d_X": "d_Out"})
def sequence_expand_grad(
    X: Tensor, Y: Tensor, d_Out: Tensor, *, lod_X: Levels, lod_Y: Levels, ref_level: int = -1
) -> Tensor:
    """The gradients of all copies of a row, added up."""
    index, _ = _expansion(X, lod_X, _reference(lod_Y, ref_level))
    return d_Out if index is None else torch.zeros_like(X).index_add_(0, index, d_Out)


def _rows_as(X: Tensor, lod_Y: Levels) -> Offsets:
    if not lod_Y or len(lod_Y[0]) != X.shape[0]:
        found = len(lod_Y[0]) if lod_Y else 0
        raise EnforceNotMet(f"X has {X.shape[0]} rows but Y {found} sequences")
    if len(lod_Y) > 1:
        raise EnforceNotMet(f"Y may have one sequence level but has {len(lod_Y)}")
    return lod_Y[0]


@operator(
    "sequence_expand_as",
    outputs="Out",
    lod="",
    makes_lod="Out",
    differentiable="X",
    infer=infer_from({"Out": lambda X: (-1, *X[1:])}, levels={"Out": lambda Y: Y}),
)
def sequence_expand_as(X: Tensor, Y: Tensor, *, lod_Y: Levels) -> tuple[Tensor, Levels]:
    """Row i of X as many times as sequence i of Y is long; the result has Y's sequences."""
    sequences = _rows_as(X, lod_Y)
    return take_rows(X, sequences.owners(X.device)), (sequences,)


@gradient("sequence_expand_as")
def sequence_expand_as_grad(X: Tensor, Y: Tensor, d_Out: Tensor, *, lod_Y: Levels) -> Tensor:
    """The gradients of all copies of a row, added up."""
    owners = _rows_as(X, lod_Y).owners(X.device)
    return torch.zeros_like(X).index_add_(0, owners, d_Out)
