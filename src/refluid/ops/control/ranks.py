"""Sequences by length: the rank table of a dynamic RNN, and what is sorted or cut by it."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.describing import constant_shape, like
from refluid.ops.infer import no_inference
from refluid.ops.registry import GradOp, gradient, operator
from refluid.ops.sequence.batching import TimeMajor, time_major
from refluid.ops.sequence.picking import first, inverse, pick
from refluid.ops.signature import AnyValue

_CPU = torch.device("cpu")


class RankTable:
    """The sequences of one LoD level, the longest first; equal ones stay in their order.

    lod: the levels down to the one that is ranked.
    """

    def __init__(self, lod: Levels) -> None:
        self.lod = lod

    @property
    def level(self) -> int:
        """Which level is ranked."""
        return len(self.lod) - 1

    @property
    def offsets(self) -> Offsets:
        """The sequences that are ranked."""
        return self.lod[-1]

    def steps(self, device: torch.device = _CPU) -> TimeMajor:
        """The sequences as steps: step t has the t-th element of all that are long enough."""
        return time_major(self.offsets, False, device)

    @property
    def order(self) -> list[int]:
        """Numbers of the sequences, the longest first."""
        return self.steps().order

    @cached_property
    def _sizes(self) -> list[int]:
        return self.steps().sizes

    def alive(self, step: int) -> int:
        """How many sequences have an element at that step."""
        sizes = self._sizes
        return sizes[step] if 0 <= step < len(sizes) else 0


@operator("lod_rank_table", outputs="Out", uses=None, lod="", infer=no_inference)
def lod_rank_table(X: Tensor, *, lod_X: Levels, level: int = 0) -> AnyValue:
    """The sequences of X on that LoD level, ranked by length."""
    if level >= len(lod_X):
        raise EnforceNotMet(
            f"lod_rank_table ranks LoD level {level} of X, but X has {len(lod_X)} levels; feed it "
            "as a LoDTensor with recursive_sequence_lengths"
        )
    return RankTable(lod_X[: level + 1])


@operator(
    "max_sequence_len",
    outputs="Out",
    uses=None,
    lod="",
    infer=constant_shape(VarType.INT64, 1),
)
def max_sequence_len(RankTable: AnyValue, *, device: torch.device) -> Tensor:
    """The length of the longest sequence, int64 of shape (1,)."""
    return torch.tensor([RankTable.offsets.longest], device=device)


@operator(
    "shrink_rnn_memory",
    outputs="Out",
    makes_lod="Out",
    uses="X",
    differentiable="X",
    views={"Out": "X"},
    infer=like(Out="X"),
    position="I",
)
def shrink_rnn_memory(
    X: Tensor,
    RankTable: AnyValue,
    I: Tensor,  # noqa: E741
    *,
    lod_X: Levels,
) -> tuple[Tensor, Levels]:
    """The first sequences (or rows) of X: those that are still going on at step I."""
    rows, levels = first(lod_X, RankTable.alive(int(I)))
    return X[:rows], levels


@gradient("shrink_rnn_memory")
def shrink_rnn_memory_grad(X: Tensor, d_Out: Tensor | None) -> Tensor:
    """d_Out, and zeros for the sequences that had ended."""
    if d_Out is not None and d_Out.shape[0] == X.shape[0]:
        return d_Out.clone()
    grad = torch.zeros_like(X)
    if d_Out is not None:
        grad[: d_Out.shape[0]] = d_Out
    return grad


def _reorder_gradient(op: Operator) -> list[GradOp]:
    inputs = {"X": [name + GRAD for name in op.output("Out")], "RankTable": op.input("RankTable")}
    outputs = {"Out": [name + GRAD for name in op.input("X")]}
    return [GradOp("reorder_lod_tensor_by_rank_grad", inputs, outputs, {})]


def _reordered(X: Tensor, lod: Levels, order: Tensor) -> tuple[Tensor, Levels]:
    count = len(lod[0]) if lod else X.shape[0]
    if count != len(order):
        raise EnforceNotMet(f"the rank table has {len(order)} sequences but X has {count}")
    rows, levels = pick(lod, order)
    return X.index_select(0, rows.to(X.device)), levels


@operator(
    "reorder_lod_tensor_by_rank",
    outputs="Out",
    makes_lod="Out",
    maker=_reorder_gradient,
    infer=like(Out="X"),
)
def reorder_lod_tensor_by_rank(
    X: Tensor, RankTable: AnyValue, *, lod_X: Levels
) -> tuple[Tensor, Levels]:
    """The sequences of X (its rows, if it has no LoD) in the order of the table."""
    return _reordered(X, lod_X, torch.tensor(RankTable.order, dtype=torch.int64))


@operator(
    "reorder_lod_tensor_by_rank_grad",
    outputs="Out",
    makes_lod="Out",
    uses=None,
    infer=like(Out="X"),
)
def reorder_lod_tensor_by_rank_grad(
    X: Tensor, RankTable: AnyValue, *, lod_X: Levels
) -> tuple[Tensor, Levels]:
    """Undoes the order of the table."""
    return _reordered(X, lod_X, inverse(RankTable.order))
