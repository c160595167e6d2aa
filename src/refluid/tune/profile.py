"""What the steps of a window do: operators, their times, arithmetic and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from refluid.core import flags
from refluid.core.events import Log, keep
from refluid.core.flag_table import FLAGS
from refluid.engine.choices import NONE, consulted
from refluid.engine.pipeline import FUSING, run_passes
from refluid.engine.setting import AS_USUAL, Setting
from refluid.engine.strategy import BUILD, DEFAULT, Strategy
from refluid.fluid.compiler import CompiledProgram
from refluid.ir.attributes import OpRole
from refluid.ir.program import Program
from refluid.measure.step_profile import Spent, StepProfile, step_profile, work_of
from refluid.ops.effects import Effect
from refluid.ops.registry import facts_of, find
from refluid.passes.mixed_precision import HALVES
from refluid.runtime.kernels import has_choice
from refluid.runtime.layout import channels_last_state
from refluid.runtime.meter import Meter, OperatorWork, arm
from refluid.tune.window import StepWindow, plain_program

_STEPS = 8
_EVENTS = 200_000
# Of the time of all operators; kinds that take less aren't looked at one by one.
_NOTABLE = 0.05
_CPU = torch.device("cpu")
SLOWEST = 12
"""Operators that are told of."""
SMALL = 0.1
"""Milliseconds of what is called small."""


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
class KernelUse:
    """Where a kernel may be chosen. chosen: kinds of operators, the slowest first. multiplies,
    convolves: whether such are among a step's. laid: whether its filters lie channels-last."""

    chosen: list[str] = field(default_factory=list)
    multiplies: bool = False
    convolves: bool = False
    laid: bool = False


@dataclass(frozen=True)
class Profile:
    """A step operator by operator. ms: of operators; between: of what is between them.

    small: all operators together that take less than a tenth of a millisecond.
    peak: bytes that tensors held at once. flops, moved: of the whole step. operators: how many.
    updates: how many of them update parameters, in how many milliseconds. fed: shapes. reads:
    whether the program reads by itself. half: whether anything in it is in half precision.
    exchanged_ms: of operators that exchange values with other processes.
    replicas, threads: as the script says. everywhere: whether the environment says on how many
    CPUs it runs. fusions: passes that a strategy may ask for and that would change it. flags: set.
    varied: whether batches have several shapes. plain: whether there are no replicas. scopes:
    names of the places of knobs that act on something in the script.
    """

    ms: float
    between: float
    small: OperatorCost
    operators: int
    updates: int
    updates_ms: float
    flops: int
    moved: int
    peak: int
    fed: dict[str, list[int]]
    reads: bool
    half: bool
    replicas: int
    threads: int
    everywhere: bool
    fusions: list[str]
    flags: dict[str, Any]
    slowest: list[OperatorCost]
    by_line: list[tuple[str, float]]
    exchanged_ms: float = 0.0
    kernels: KernelUse = KernelUse()
    varied: bool = False
    plain: bool = False
    scopes: list[str] = field(default_factory=list)


def profile_of(told: dict[str, Any]) -> Profile:
    """What `asdict` made of one."""
    slowest = [OperatorCost(**one) for one in told["slowest"]]
    lines = [(line, ms) for line, ms in told["by_line"]]
    small, kernels = OperatorCost(**told["small"]), KernelUse(**told["kernels"])
    return Profile(
        **{**told, "slowest": slowest, "by_line": lines, "small": small, "kernels": kernels}
    )


def profiled(window: StepWindow, program: Any) -> Profile:
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
    plain = plain_program(program)
    compiled = program if isinstance(program, CompiledProgram) else None
    replicated = compiled._replicated if compiled else None
    ops = [op for block in plain.blocks for op in block.ops]
    costs = [_cost_of(one, work) for one in found.slowest(len(found.operators))]
    return Profile(
        ms=found.compute,
        between=found.ms - found.compute,
        small=together([one for one in costs if one.ms < SMALL]),
        operators=len(ops),
        updates=sum(op.role == OpRole.OPTIMIZE for op in ops),
        updates_ms=sum(one.ms for one in found.operators if _updates(one)),
        flops=sum(one.flops for one in work.values()),
        moved=sum(one.moved for one in work.values()),
        peak=measured.peak if measured else 0,
        fed={name: list(shape) for name, shape in (measured.fed if measured else {}).items()},
        reads=any(facts_of(op.type).reads for op in ops),
        half=any(var.dtype in HALVES for var in plain.list_vars()),
        replicas=len(replicated.places) if replicated else 1,
        threads=replicated.strategy.num_threads if replicated else 0,
        everywhere=compiled is not None and compiled._is_data_parallel and not compiled._places,
        fusions=fusions_of(plain),
        flags=flags_set(),
        slowest=costs[:SLOWEST],
        by_line=[(line, ms) for line, ms, _ in found.by(lambda watched: watched.line)[:6]],
        exchanged_ms=sum(one.ms for one in found.operators if _exchanges(one)),
        kernels=_kernel_use(found, plain),
        varied=window.shapes > 1,
        plain=replicated is None or len(replicated.places) == 1,
        scopes=scopes_consulted(),
    )


def _kernel_use(found: StepProfile, program: Program) -> KernelUse:
    """What is worth a choice of kernels: kinds that take a twentieth of the operators' time."""
    spent = found.by(lambda watched: watched.ops[0].type.removesuffix("_grad"))
    chosen = [kind for kind, ms, _ in spent if has_choice(kind) and ms > _NOTABLE * found.compute]
    filters = {kind for kind in chosen if _has_filter(kind)}
    laid = bool(channels_last_state(program.global_block().ops, _CPU))
    return KernelUse(chosen, set(chosen) > filters, bool(filters), laid)


def _has_filter(kind: str) -> bool:
    definition = find(kind)
    return definition is not None and bool(definition.filter)


def scopes_consulted() -> list[str]:
    """The names of places whose knobs act on something here."""
    return sorted(one.name for one in consulted())


def together(costs: Sequence[OperatorCost]) -> OperatorCost:
    """The sums of some."""
    flops, moved = sum(one.flops for one in costs), sum(one.moved for one in costs)
    return OperatorCost("", "", "", sum(one.ms for one in costs), flops, moved)


def flags_set() -> dict[str, Any]:
    """The flags that somebody set, with their values."""
    return {f"FLAGS_{name}": flags.value(name) for name in FLAGS if flags.was_set(name)}


def _cost_of(spent: Spent, work: dict[tuple[str, str], OperatorWork]) -> OperatorCost:
    one = spent.watched
    known = work.get((one.name, one.result), OperatorWork())
    return OperatorCost(one.name, one.result, one.line, spent.ms, known.flops, known.moved)


def _updates(spent: Spent) -> bool:
    return any(op.role == OpRole.OPTIMIZE for op in spent.watched.ops)


def _exchanges(spent: Spent) -> bool:
    return any(Effect.COMM in facts_of(op.type).effects for op in spent.watched.ops)


def _with(name: str) -> Strategy:
    on: dict[str, Any] = {name: True}
    return replace(DEFAULT, **on)


def fusions_of(program: Program) -> list[str]:
    """Options of `BuildStrategy` of which a pass would change the program."""
    found = []
    switches = [name for name, knob in BUILD.items() if knob.default is False]
    for one in FUSING:
        if one.wanted(AS_USUAL):
            continue
        wanted = [name for name in switches if one.wanted(Setting(_with(name)))]
        if wanted and run_passes(program, [one]).reports.get(one.name):
            found += wanted
    return found
