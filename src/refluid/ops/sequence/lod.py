"""The same rows in other sequences."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.lod import lod_error
from refluid.core.offsets import Levels, Offsets
from refluid.ops.registry import gradient, operator
from refluid.ops.sequence.levels import infer_from


def _level(values: Sequence[int], rows: int) -> Offsets:
    """A level given by offsets."""
    problem = lod_error([list(values)], rows)
    if problem is None and len(values) > 1:
        return Offsets(values)
    lengths = min(values, default=-1) >= 0 and sum(values) == rows
    offsets = list(Offsets.of_lengths(values).values) if lengths else [0, rows]
    raise EnforceNotMet(
        f"{list(values)} are no sequences of {rows} rows: {problem}. Target LoD should be a vector "
        f"of offsets starting from 0, such as {offsets}"
    )


def _target_level(X: int, Y: int | None, append: bool) -> int:
    added = max(Y or 0, 1)
    return X + added if append else added


@operator(
    "lod_reset",
    outputs="Out",
    lod="",
    makes_lod="Out",
    uses="X",
    differentiable="X",
    views={"Out": "X"},
    infer=infer_from({"Out": lambda X: X}, levels={"Out": _target_level}),
)
def lod_reset(
    X: Tensor,
    Y: Tensor | None = None,
    *,
    lod_X: Levels,
    lod_Y: Levels,
    target_lod: Sequence[int] = (),
    append: bool = False,
) -> tuple[Tensor, Levels]:
    """X with the sequences of Y, or those that Y's integers or target_lod say.

    Integers are offsets `[0, 4, 6]`. append: integers give a level below those
    of X; sequences of Y take the place of X's all the same, as in paddle 2.6.
    """
    if Y is not None and lod_Y:
        if lod_Y[-1].total != X.shape[0]:
            raise EnforceNotMet(
                f"the sequences of Y cover {lod_Y[-1].total} rows but X has {X.shape[0]}"
            )
        return X, lod_Y
    values = list(target_lod) if Y is None else Y.flatten().tolist()
    added = (_level([int(one) for one in values], X.shape[0]),)
    return X, (*lod_X, *added) if append else added


@gradient("lod_reset", views={"d_X": "d_Out"}, shape_only="X")
def lod_reset_grad(X: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out, in the sequences of X."""
    return d_Out
