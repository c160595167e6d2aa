"""Writes a block as a straight-line Python function: the plan of the interpreted tier.

    def step(F, C, L):
        v0, v1 = F
        p0 = C[0].value
        v2 = mul(v0, p0)
        ...
        return (v9,), ((),)

One call per operator, attributes as constants, values deleted after their last use. `F` are
the fed tensors and `L` their LoD, `C` the scope's cells of the persistable variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from refluid.analysis.liveness import in_slots, starts_without
from refluid.analysis.uses import Key, key_of, reads, writes
from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.notices import tell_once
from refluid.core.offsets import as_levels, as_lod
from refluid.core.random import RandomSource
from refluid.ir.operator import Operator
from refluid.kernels.handover import own_value
from refluid.runtime import control, loops, readers, recurrence  # noqa: F401  (they register)
from refluid.runtime.instrument import WATCH, Watch
from refluid.runtime.kernels import KernelChoice
from refluid.runtime.lods import Lods, has_lod
from refluid.runtime.memory import Garbage
from refluid.runtime.messages import not_to_fetch
from refluid.runtime.operators import write_operators
from refluid.runtime.order import check_order
from refluid.runtime.request import UNWATCHED, Request
from refluid.runtime.source import PlanSource
from refluid.runtime.steps import Bind, Call, Load, Return, Store
from refluid.runtime.trees import (
    COMM,
    DEVICE,
    FED,
    FED_LODS,
    OWN,
    RANDOM,
    Formula,
    Known,
    Name,
    called,
    entry,
)
from refluid.runtime.variables import Variables
from refluid.runtime.writing import CONTROL, FEEDING, Writing

GARBAGE, AS_LEVELS = Name("garbage0"), Known("as_levels")


@dataclass
class WrittenPlan:
    """A written plan: its source, the variables, the state it needs and what must have a value.

    ragged: whether values may have LoDs.
    """

    source: PlanSource
    variables: Variables
    state: list[str]
    required: set[str]
    ragged: bool


def write_plan(request: Request) -> WrittenPlan:
    """The whole function."""
    writer = _begun(request)
    block, variables, source = request.block, writer.variables, writer.source
    ops = [op for op in block.ops if op.type not in FEEDING]
    required = _write_prologue(writer, ops)
    live = {key_of(block, name) for name in request.fetches}
    write_operators(writer, block, ops, live | set(variables.state))
    _write_epilogue(writer)
    if request.overlaps:
        from refluid.runtime.overlapping import overlapping  # most programs exchange nothing

        source.steps[:] = overlapping(source.steps)
    if request.threads > 1 and request.instruments is UNWATCHED:
        from refluid.runtime.threaded import out_of_order  # most programs run in order

        source = out_of_order(source, block, variables, request.threads, request.updates_last)
    state = [key[1] for key in variables.state]
    return WrittenPlan(source, variables, state, required, writer.lods.ragged)


def _begun(request: Request) -> Writing:
    """Nothing written yet."""
    source = PlanSource(
        {
            DEVICE: request.device,
            RANDOM: RandomSource(request.device),
            COMM: request.comm,
            OWN: own_value,
            AS_LEVELS: as_levels,
            "as_lod": as_lod,
        }
    )
    if request.instruments:
        source.constants[str(WATCH)] = Watch(request)
    variables = Variables(request.block, request.feeds)
    ragged = bool(request.fed_lods) or has_lod(request.block.program)
    return Writing(
        request,
        source,
        variables,
        Lods(source, variables, ragged=ragged),
        KernelChoice(request.device, request.kernels, alone=request.threads == 1),
        GARBAGE if request.memory.collects else None,
    )


def _write_prologue(writer: Writing, ops: Sequence[Operator]) -> set[str]:
    """What is fed, and variables as they start; those of the scope that must have a value."""
    block, request, add = writer.request.block, writer.request, writer.source.add
    variables, lods = writer.variables, writer.lods
    missing = check_order(ops, set(variables.fed), variables.is_state)
    if writer.garbage:
        device = request.device if request.memory.wait else None
        make = partial(Garbage, request.memory.garbage, device)
        add(Call(writer.garbage, writer.source.constant("new_garbage", make)))
    if request.feeds:
        add(Bind(tuple(variables.local(block, name) for name in request.feeds), FED))
    required: set[str] = set()

    def load(key: Key, *, needed: bool, conditional: bool = False) -> None:
        if _load(writer, key, needed=needed, conditional=conditional):
            required.add(key[1])

    written: set[Key] = set()
    for op in ops:
        late = starts_without(op)
        for key in in_slots(op, reads(op) - written):
            load(key, needed=key not in late, conditional=key in late)
        touched = writes(op) | reads(op) if op.type in CONTROL else writes(op)
        for key in sorted(touched - written):
            load(key, needed=False, conditional=op.type in CONTROL)
        written |= writes(op)
    for name in request.fetches:
        key = key_of(block, name)
        if variables.is_state(block, name):
            load(key, needed=True)
        elif name not in variables.home(key).vars and key not in written | variables.fed:
            _load_of_others(writer, key)
            required.add(name)
    for key in sorted(missing):
        add(Bind(variables.named(key), None))
    for index, name in enumerate(request.feeds):
        if name in request.fed_lods:
            lods.names[key_of(block, name)] = level = lods.new()
            add(Bind(level, entry(FED_LODS, index)))
    return required


def _load(writer: Writing, key: Key, *, needed: bool, conditional: bool) -> bool:
    """Loads a variable; whether the scope must have a value for it."""
    variables, add = writer.variables, writer.source.add
    home, name = variables.home(key), key[1]
    if not variables.is_state(home, name):
        if conditional and key not in variables.names:
            add(Bind(variables.named(key), None))
        return False
    if key in variables.state:
        return False
    cell = variables.cell(key)
    if key in variables.fed:
        add(Store(cell, variables.named(key)))
        return False
    if needed or conditional:
        add(Load(variables.named(key), cell))
        if home.vars[name].lod_level:
            writer.lods.names[key] = level = writer.lods.new()
            add(Bind(level, Formula("{}({}.lod)", (AS_LEVELS, cell))))
    return needed and home.vars[name].type != VarType.RAW


def _load_of_others(writer: Writing, key: Key) -> None:
    """Loads what the program doesn't declare and another one left in the scope."""
    variables, add = writer.variables, writer.source.add
    cell = variables.cell(key)
    add(Load(variables.named(key), cell))
    if writer.lods.ragged:
        writer.lods.names[key] = level = writer.lods.new()
        add(Bind(level, Formula("{}({}.lod)", (AS_LEVELS, cell))))


def _write_epilogue(writer: Writing) -> None:
    block, request, names = writer.request.block, writer.request, writer.variables.names
    fetches = [key_of(block, name) for name in request.fetches]
    for key in fetches:
        if key not in names:
            _bind_nothing(writer, key)
    results = tuple(
        names[key] if key in writer.fresh or request.lends else called(OWN, names[key])
        for key in fetches
    )
    for key, level in writer.lods.names.items():
        if key in writer.variables.state:
            place = Formula("{}.lod", (writer.variables.cell(key),))
            writer.source.add(Bind(place, called(Known("as_lod"), level)))
    levels = tuple(writer.lods.of(key) for key in fetches)
    writer.source.add(Return((results, levels)))


def _bind_nothing(writer: Writing, key: Key) -> None:
    """What nothing computes is empty; EnforceNotMet for what would be fed."""
    if writer.variables.home(key).vars[key[1]].is_data:
        raise EnforceNotMet(not_to_fetch(key[1]))
    tell_once(f"nothing in the program computes {key[1]!r}, which is fetched: it is empty")
    writer.source.add(Bind(writer.variables.named(key), None))
