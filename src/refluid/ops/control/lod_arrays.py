"""Sequences <-> arrays of time steps: how a dynamic RNN takes its inputs and gives its outputs."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensor, LoDTensorArray
from refluid.core.offsets import Levels, as_lod
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.describing import like
from refluid.ops.registry import GradOp, Maker, operator
from refluid.ops.sequence.picking import one_after_another, pick
from refluid.ops.signature import AnyValue

Item = LoDTensor | Tensor


def data_of(item: Item) -> Tensor:
    """The rows of an element of an array."""
    return item.tensor if isinstance(item, LoDTensor) else item


def levels_of(item: Item) -> Levels:
    """The LoD of an element of an array."""
    return item.levels if isinstance(item, LoDTensor) else ()


def written(item: Item) -> bool:
    """Whether an element of an array holds data."""
    return isinstance(item, Tensor) or item._is_initialized()


def _gradient_by(type: str) -> Maker:
    def make(op: Operator) -> list[GradOp]:
        inputs = {
            "X": [name + GRAD for name in op.output("Out")],
            "RankTable": op.input("RankTable"),
        }
        return [GradOp(type, inputs, {"Out": [name + GRAD for name in op.input("X")]})]

    return make


@operator(
    "lod_tensor_to_array",
    outputs="Out",
    lod="",
    maker=_gradient_by("array_to_lod_tensor"),
    infer=like(-1, Out="X"),
)
def lod_tensor_to_array(X: Tensor, RankTable: AnyValue, *, lod_X: Levels) -> LoDTensorArray:
    """Element t holds the t-th elements of all sequences that have one, the longest first.

    Elements are rows, or where X has levels below the one that the table ranks, sequences.
    """
    lod = lod_X or RankTable.lod
    level = RankTable.level
    if len(lod) <= level or lod[level] != RankTable.offsets:
        raise EnforceNotMet(
            "all step inputs of a dynamic RNN must have the same sequences: X has LoD "
            f"{as_lod(lod)}, but the table was made of {as_lod(RankTable.lod)}"
        )
    steps = RankTable.steps(X.device)
    below = lod[level + 1 :]
    if not below:
        return LoDTensorArray(steps.to_steps(X).split(steps.sizes))
    parts: list[Item] = []
    for elements in steps.rows.cpu().split(steps.sizes):
        rows, levels = pick(below, elements)
        parts.append(LoDTensor(X.index_select(0, rows.to(X.device)), levels))
    return LoDTensorArray(parts)


@operator(
    "array_to_lod_tensor",
    outputs="Out",
    lod="",
    makes_lod="Out",
    maker=_gradient_by("lod_tensor_to_array"),
    infer=like(1, Out="X"),
)
def array_to_lod_tensor(X: LoDTensorArray, RankTable: AnyValue) -> tuple[Tensor, Levels]:
    """The inverse of `lod_tensor_to_array`: the elements of each step back in their sequences."""
    steps = RankTable.steps()
    if len(X) < len(steps.sizes):
        raise EnforceNotMet(
            f"the array has {len(X)} elements, but the longest sequence has {len(steps.sizes)}"
        )
    items = _filled(list(X[: len(steps.sizes)]), steps.sizes)
    rows = torch.cat([data_of(item) for item in items]) if items else data_of(X[0])[:0]
    below = [levels_of(item) for item in items]
    for step, (item, levels, size) in enumerate(zip(items, below, steps.sizes, strict=True)):
        found = len(levels[0]) if levels else data_of(item).shape[0]
        if found != size:
            raise EnforceNotMet(
                f"element {step} of the array has {found} rows or sequences, but {size} "
                "sequences go on at that step"
            )
    places = torch.argsort(steps.rows)
    order, levels = pick(one_after_another(below), places)
    return rows.index_select(0, order.to(rows.device)), (*RankTable.lod, *levels)


def _filled(items: list[Item], sizes: list[int]) -> list[Item]:
    """Elements that nobody has written are zeros: gradients that didn't come."""
    if all(written(item) for item in items):
        return items
    model = next((data_of(item) for item in items if written(item)), None)
    if model is None:
        raise EnforceNotMet("no element of the array has been written")
    return [
        item if written(item) else model.new_zeros((size, *model.shape[1:]))
        for item, size in zip(items, sizes, strict=True)
    ]
