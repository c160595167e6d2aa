"""Exchanges go on while a plan computes: they are waited for where their results are needed."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.runtime.steps import Compound, ExchangeWait, Return, Step


def overlapping(steps: Sequence[Step]) -> list[Step]:
    """The steps with each wait put off until a step touches what the exchange fills.

    Waits keep their order. A block waits for what it started; what is open is waited for before a
    block runs and before the plan returns.
    """
    moved: list[Step] = []
    waiting: list[ExchangeWait] = []
    for step in steps:
        if isinstance(step, ExchangeWait):
            waiting.append(step)
            continue
        if isinstance(step, Compound):
            _overlap_within(step)
        due = _due(waiting, step)
        moved += [*waiting[:due], step]
        del waiting[:due]
    return [*moved, *waiting]


def _overlap_within(block: Compound) -> None:
    for body in block.bodies:
        body[:] = overlapping(body)


def _due(waiting: Sequence[ExchangeWait], step: Step) -> int:
    """How many of those that wait must be over before a step."""
    if isinstance(step, Compound | Return):
        return len(waiting)
    touched = step.reads | step.writes | step.overwrites
    return max((1 + n for n, one in enumerate(waiting) if one.overwrites & touched), default=0)
