"""What the steps of a window do: operators, their times, arithmetic and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from refluid.core.events import Log, keep
from refluid.engine.choices import NONE
from refluid.fluid.compiler import CompiledProgram
from refluid.ir.attributes import OpRole
from refluid.ir.program import Program
from refluid.measure.step_profile import step_profile, work_of
from refluid.runtime.meter import Meter, arm
from refluid.tune.window import Window

_STEPS = 4
_EVENTS = 200_000
_SLOWEST = 12


@dataclass(frozen=True)
class OperatorCost:
    """One operator: milliseconds a step, arithmetic and bytes; 0 where that isn't known."""

    type: str
    result: str
    line: str
    ms: float
    flops: int
    moved: int


@dataclass(frozen=True)
class Profile:
    """A step operator by operator. ms: of operators; between: of what is between them.

    peak: bytes that tensors held at once. flops, moved: of the whole step. operators: how many.
    updates: how many of them update parameters. fed: shapes. replicas, threads: as the script says.
    """

    ms: float
    between: float
    operators: int
    updates: int
    flops: int
    moved: int
    peak: int
    fed: dict[str, list[int]]
    replicas: int
    threads: int
    slowest: list[OperatorCost]
    by_line: list[tuple[str, float]]


def profiled(window: Window, program: Any) -> Profile:
    """Watches some steps of the window, metering one of them."""
    log, meter = Log(most=_EVENTS), Meter()
    keep(log)
    try:
        window.again(NONE, 1)  # the first run of a plan is unlike others
        arm(meter)
        window.again(NONE, 1)
        arm(None)
        log.events.clear()
        window.again(NONE, _STEPS)
    finally:
        arm(None)
        keep(None)
    found = step_profile(log)
    measured = max(meter.steps, key=lambda step: len(step.watched), default=None)
    work = work_of(measured)
    nothing = (0, 0)
    slowest = []
    for one in found.slowest(_SLOWEST):
        known = work.get((one.watched.name, one.watched.result))
        flops, moved = (known.flops, known.moved) if known else nothing
        slowest.append(
            OperatorCost(
                one.watched.name, one.watched.result, one.watched.line, one.ms, flops, moved
            )
        )
    plain: Program = program._program if isinstance(program, CompiledProgram) else program
    ops = [op for block in plain.blocks for op in block.ops]
    replicated = program._replicated if isinstance(program, CompiledProgram) else None
    return Profile(
        found.compute,
        found.ms - found.compute,
        len(ops),
        sum(op.role == OpRole.OPTIMIZE for op in ops),
        sum(one.flops for one in work.values()),
        sum(one.moved for one in work.values()),
        measured.peak if measured else 0,
        {name: list(shape) for name, shape in (measured.fed if measured else {}).items()},
        len(replicated.places) if replicated else 1,
        replicated.strategy.num_threads if replicated else 0,
        slowest,
        [(line, ms) for line, ms, _ in found.by(lambda watched: watched.line)[:6]],
    )
