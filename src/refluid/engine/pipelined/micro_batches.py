"""How a batch is cut into micro-batches, and what their results are together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.core.values import LoDTensor
from refluid.engine.splitting import split_batch
from refluid.ir.program import Program
from refluid.runtime.plan import Fetched

SCHEDULES = ("1F1B", "F-then-B")


@dataclass(frozen=True)
class MicroBatches:
    """steps: how many micro-batches make a step. size: samples of each, 0 for any.

    schedule: one of SCHEDULES.
    """

    steps: int
    size: int = 0
    schedule: str = SCHEDULES[0]

    def turns(self, stage: int, stages: int) -> Iterator[bool]:
        """What a stage does one after the other: True goes forward with the next micro-batch."""
        early = stages - stage - 1 if self.schedule == "1F1B" else self.steps
        first = min(early, self.steps)
        yield from [True] * first
        for _ in range(self.steps - first):
            yield True
            yield False
        yield from [False] * first

    def cut(self, feed: Mapping[str, Any], program: Program) -> list[dict[str, Any]]:
        """What each micro-batch is fed; what has no row for each sample is fed to all.

        ValueError where the rows of something don't fall into micro-batches.
        """
        variables = program.global_block().vars
        found: list[dict[str, Any]] = [{} for _ in range(self.steps)]
        for name, value in feed.items():
            shape = variables[name].shape if name in variables else ()
            for batch, part in zip(found, self._parts(name, value, shape), strict=True):
                batch[name] = part
        return found

    def _parts(self, name: str, value: Any, declared: Sequence[int]) -> list[Any]:
        rows = samples(value)
        if declared and declared[0] == rows:
            return [value] * self.steps
        if rows % self.steps or (self.size and rows != self.steps * self.size):
            wanted = f"{self.steps} micro-batches" + (f" of {self.size}" if self.size else "")
            raise ValueError(
                f"a batch of {name!r} of {rows} rows isn't cut into {wanted}: accumulate_steps "
                "times micro_batch_size of pipeline_configs must be the rows of what is fed"
            )
        return split_batch(name, value, self.steps)


def samples(value: Any) -> int:
    """Rows of what is fed, sequences where it has a LoD."""
    if isinstance(value, Fetched):
        value = LoDTensor(value.value, value.levels)
    if isinstance(value, LoDTensor):
        lengths = value.recursive_sequence_lengths()
        return len(lengths[0]) if lengths else int(value.shape()[0])
    return int((*np.shape(value), 1)[0])


def as_one(values: Sequence[Fetched], shape: Sequence[int]) -> Fetched:
    """What the whole batch would give, of what micro-batches gave. shape: as declared.

    Rows follow one another, of single numbers it is the mean; of anything else the last.
    """
    tensors = [one.value for one in values if isinstance(one.value, Tensor) and not one.levels]
    if len(tensors) < len(values):
        return values[-1]
    if shape and shape[0] < 0:
        return Fetched(torch.cat(tensors))
    if tensors[0].numel() == 1 and tensors[0].is_floating_point():
        return Fetched(torch.stack(tensors).mean(0))
    return values[-1]
