"""d_W = sum of Xᵀ·d_Y of every use  ->  d_W = Xᵀ·d_Y of the rows of all uses

A recurrent network takes its weights anew at every step, and autograd computes a gradient of the
whole weight for each, to add them all up. Gradients that are sums over rows
(`Facts.sums_rows`) wait instead, as the rows that they would be computed of, and come of one call
of the gradient operator at the end. They wait while the rows are fewer numbers than the weight has:
then joining them costs less than a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from refluid.core import flags
from refluid.core.accumulator import joined_rows
from refluid.core.errors import explain_freed
from refluid.kernels.engine import run_backward
from refluid.kernels.packed import packed_weights
from refluid.kernels.settings import without_gradients

_MOST = 4096  # weights that are known to have been taken


class SumsRows(Protocol):
    """An operator whose gradient of a weight is a sum over rows.

    weight: the weight's place among the inputs. rows: for each tensor that the gradient operator
    is given, those kept first, whether it has rows.
    """

    weight: int
    rows: Sequence[bool]

    def gradient_of_weight(self, kept: Sequence[Any], slopes: Sequence[Any]) -> Tensor:
        """The gradient of the weight alone."""


@dataclass
class _Waiting:
    """Uses of a weight by operators that look alike. size: how many numbers their rows have."""

    call: SumsRows
    weight: Tensor
    uses: list[list[Tensor]] = field(default_factory=list)
    size: int = 0

    def compute(self, kept: int) -> None:
        """Adds the gradient of the uses so far. kept: how many tensors stand before slopes."""
        uses, self.uses, self.size = self.uses, [], 0
        values = joined_rows(uses, self.call.rows)
        found, weight = self.call.gradient_of_weight(values[:kept], values[kept:]), self.weight
        if weight.grad is None:
            weight.grad = found
        else:
            weight.grad.add_(found)


class SharedWeights:
    """Weights that were taken since gradients were last computed, and gradients that wait.

    taken: those weights' ids; who takes one that isn't there adds it.
    """

    def __init__(self) -> None:
        self.taken: set[int] = set()
        self._waiting: dict[Any, tuple[_Waiting, int]] | None = None

    def again(self, weight: Tensor, rows: Tensor) -> bool:
        """For a weight that was taken before: whether it was computed from nothing, and is taken
        by rows of fewer numbers than it has.
        """
        if len(self.taken) > _MOST:
            self.taken.clear()
        if flags.value("refluid_packed_weights"):
            packed_weights.use(weight)
        return weight.is_leaf and weight.requires_grad and rows.numel() < weight.numel()

    def awaits(self, weight: Tensor) -> bool:
        """Whether gradients of a weight wait until the end of the pass that goes on."""
        return any(one.weight is weight for one, _ in (self._waiting or {}).values())

    def backward(self, values: Sequence[Tensor], slopes: Sequence[Tensor], keeps: bool) -> None:
        """As `run_backward`, at whose end the gradients that wait are computed.

        Raises GraphFreed where gradients were computed from the same results before.
        """
        waiting: dict[Any, tuple[_Waiting, int]] = {}
        former, self._waiting = self._waiting, waiting
        self.taken.clear()
        packed_weights.begin()
        try:
            run_backward(values, slopes, keeps)
            packed_weights.end()
            if waiting:
                without_gradients(self._compute, waiting)
        except RuntimeError as error:
            explain_freed(error, "backward")
            raise
        finally:
            packed_weights.end()
            self._waiting = former

    def _compute(self, waiting: dict[Any, tuple[_Waiting, int]]) -> None:
        for one, kept in waiting.values():
            if one.uses:
                one.compute(kept)

    def waits(
        self, call: SumsRows, weight: Tensor, kept: Sequence[Tensor], slopes: Sequence[Tensor]
    ) -> bool:
        """Notes a use whose gradient of the weight comes later; False where it can't wait."""
        if self._waiting is None or torch.is_grad_enabled() or not weight.is_leaf:
            return False
        values = [*kept, *slopes]
        size = sum(one.numel() for one, rows in zip(values, call.rows, strict=True) if rows)
        if size >= weight.numel():
            return False
        shapes = tuple(one.shape[1:] for one in values)
        found = self._waiting.setdefault(
            (id(call), id(weight), shapes), (_Waiting(call, weight), len(kept))
        )[0]
        if found.size + size >= weight.numel():
            found.compute(len(kept))
        found.uses.append(values)
        found.size += size
        return True


shared_weights = SharedWeights()
