"""What the plain Executor gives for a recording, and whether something else gives the same."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from refluid.core.values import LoDTensor
from refluid.engine.splitting import split_batch
from refluid.ir.attributes import OpRole
from refluid.ir.editor import Editor
from refluid.ir.program import Program
from refluid.verify import replay
from refluid.verify.conditioning import ROUNDING, repetition
from refluid.verify.judge import FACTOR
from refluid.verify.metrics import relative_error
from refluid.verify.recordings import RecordedValue, Recording
from tests.fluid.by_hand import tensor
from tests.fluid.strategy_pairs import loss_of, repeated

# Some flips are rare: if few repetitions don't explain a difference, more are made.
REPETITIONS = (4, 12)
# Where rounding moves a loss by half its size, nothing can be said about it any more.
CHAOS = 0.5
_NORMS = ("batch_norm", "sync_batch_norm", "inplace_abn")


@dataclass
class PlainRun:
    """A recording run by the plain Executor, each batch `times` times in a row.

    rounding: what is lost in one operation, relatively.
    """

    recording: Recording
    times: int = 1
    rounding: float = ROUNDING
    spreads: dict[int, float] = field(default_factory=dict)
    repetitions: int = 0

    def __post_init__(self) -> None:
        self.recording = repeated(self.recording, self.times)
        self.results = replay.steps(self.recording)

    def require(
        self,
        found: replay.RunResults,
        bound: float,
        what: Any,
        expected: replay.RunResults | None = None,
    ) -> None:
        """That these results, one per batch, are the same within `bound`, or up to rounding.

        What rounding does to a model that magnifies it is measured, as `refluid verify` does.
        expected: what they are to be instead, by another way to compute what this run does.
        """
        steps = range(self.times - 1, len(self.results), self.times)
        before = expected or [self.results[step] for step in steps]
        errors = [
            (step, label, relative_error(value.array, want[label].array))
            for step, want, after in zip(steps, before, found, strict=True)
            for label, value in after.items()
        ]
        beyond = [one for one in errors if one[2] > bound]
        for count in REPETITIONS:
            if not beyond:
                return
            self._repeat(count)
            beyond = [one for one in beyond if not self._explained(one[0], one[2])]
        assert not beyond, (beyond[0], self.spreads, what)

    def _repeat(self, count: int) -> None:
        """Notes by how much rounding moves any fetch of each step, in so many repetitions."""
        for seed in range(self.repetitions, count):
            again = replay.steps(repetition(self.recording, seed, self.rounding))
            for step, (one, other) in enumerate(zip(self.results, again, strict=True)):
                for label in (label for label in one if label.startswith("fetch ")):
                    a, b = one[label].array, other[label].array
                    moved = max(relative_error(a, b), relative_error(b, a))
                    self.spreads[step] = max(self.spreads.get(step, 0.0), moved)
        self.repetitions = max(self.repetitions, count)

    def _explained(self, step: int, error: float) -> bool:
        """Whether rounding moved the fetches so far: an accuracy jumps where a loss only moves."""
        widest = max((one for at, one in self.spreads.items() if at <= step), default=0.0)
        return widest >= CHAOS or error <= FACTOR * widest


def joined(values: list[Any]) -> Any:
    """The values of several places as a run returns them."""
    return np.concatenate([np.atleast_1d(np.array(value)) for value in values])


def in_parts(recording: Recording, count: int) -> Recording:
    """Each step as `count` steps, with a part of the batch each."""
    steps = []
    for step in recording.steps:
        feeds = {name: split_batch(name, tensor(v), count) for name, v in step.feeds.items()}
        for rank in range(count):
            parts = {name: _value(found[rank]) for name, found in feeds.items()}
            steps.append(replace(step, feeds=parts))
    return replace(recording, steps=steps)


def _value(part: LoDTensor) -> RecordedValue:
    return RecordedValue(np.array(part), part.recursive_sequence_lengths())


def forward_only(program: Program, loss: str | None) -> Program:
    """What leads to the loss, with fixed statistics in batch norms."""
    copy = program.clone()
    block = copy.global_block()
    wanted, kept = {loss}, []
    for op in reversed(block.ops):
        forward = op.role & ~OpRole.LOSS == OpRole.FORWARD
        if forward and wanted & set(op.output_arg_names):
            wanted |= set(op.input_arg_names)
            kept.append(op)
    for op in kept:
        if op.type in _NORMS:
            op.set_attr("is_test", True)
    Editor(block).assign(reversed(kept))
    return copy


def fetched(recording: Recording, by_hand: list[dict[str, Any]]) -> list[dict[str, RecordedValue]]:
    """What each place gives, joined, as results of a run."""
    return [
        {
            f"fetch {position}": RecordedValue(joined(found[name]))
            for position, name in enumerate(step.fetches)
            if name in found
        }
        for step, found in zip(recording.steps, by_hand, strict=True)
    ]


def losses_alone(
    recording: Recording, results: list[dict[str, RecordedValue]]
) -> list[dict[str, RecordedValue]]:
    """Of each step the loss alone; of several places their mean."""
    kept = []
    for step, values in zip(recording.steps, results, strict=True):
        loss = loss_of(recording.programs[step.program])
        at = [f"fetch {n}" for n, name in enumerate(step.fetches) if name == loss]
        kept.append({one: RecordedValue(values[one].array.mean(keepdims=True)) for one in at})
    return kept
