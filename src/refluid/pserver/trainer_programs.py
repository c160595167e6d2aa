"""A trainer's programs: optimizer operators leave, pushes, pulls and remote lookups come in."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from refluid.build import apply
from refluid.comm.servers import LOOKED_UP
from refluid.core.dtypes import as_dtype, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.ir.attributes import CALLSTACK, ROLE, OpRole
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.pserver.layout import JobLayout, TrainingMode
from refluid.pserver.ring import stable_hash
from refluid.pserver.updates import ParameterUpdate, lookups_of

_RPC = {ROLE: int(OpRole.RPC)}


@dataclass(frozen=True)
class TrainerSide:
    """How a trainer's programs are rewritten: its number, what is where, what servers update.

    any_ids: lookups take any ids.
    """

    trainer: int
    layout: JobLayout
    updates: Sequence[ParameterUpdate]
    any_ids: bool = False

    @property
    def where(self) -> dict[str, Any]:
        """By which operators find the trainer's link."""
        return {"endpoints": list(self.layout.servers), "trainer_id": self.trainer}


def rewrite_main(program: Program, side: TrainerSide) -> None:
    """sgd(w, w@GRAD) -> send(w@GRAD), recv(w); lookup_table(w) -> distributed_lookup_table(w).

    With an optimizer of the trainer's own (GEO) nothing leaves; parameters and the ids that were
    looked up are sent at the end.
    """
    block = program.global_block()
    if side.layout.mode == TrainingMode.GEO:
        _require_room(side.layout)
        _exchange_at_end(block, side)
        return
    make_lookups_remote(block, side.layout, side.where, any_ids=side.any_ids)
    end = max((update.op.idx for update in side.updates), default=len(block.ops) - 1) + 1
    gone = {id(op) for op in _leaving(block, side.updates)}
    before, rest = (
        [op for op in ops if id(op) not in gone] for ops in (block.ops[:end], block.ops[end:])
    )
    editor = Editor(block)
    editor.assign(before)
    _push_and_pull(block, side)
    editor.append(*rest)
    used = {name for one in program.blocks for op in one.ops for name in op.arg_names}
    state = {name for update in side.updates for name in update.state}
    editor.forget_variables(state - used)


def _leaving(block: Block, updates: Sequence[ParameterUpdate]) -> list[Operator]:
    """Operators that servers run instead: updates, and learning rates that nobody else reads."""
    leaving = [op for update in updates for op in update.ops]
    own = {id(op) for op in leaving}
    schedule = [op for op in block.ops if op.role & OpRole.LR_SCHED]
    made = {name for op in schedule for name in op.output_arg_names}
    for op in block.ops:
        if op not in schedule and id(op) not in own and made & set(op.input_arg_names):
            return leaving
    return leaving + schedule


def _push_and_pull(block: Block, side: TrainerSide) -> None:
    layout, where = side.layout, side.where
    gradients = [*layout.dense_of, *layout.sparse_of]
    parameters = [one.name for one in layout.dense]
    servers = {"epmap": where["endpoints"], "trainer_id": side.trainer, **_RPC}
    named = {**servers, "send_varnames": gradients}
    if gradients:
        apply("send", {"X": gradients}, {}, named, block=block)
    if layout.mode in (TrainingMode.SYNC, TrainingMode.HALF_ASYNC):
        half = layout.mode == TrainingMode.HALF_ASYNC
        apply("send_barrier", {}, {}, {**where, "half_async": half, **_RPC}, block=block)
    if parameters:
        waits = layout.mode != TrainingMode.ASYNC
        named = {**servers, "varnames": parameters, "with_barrier": waits}
        apply("recv", {"X": parameters}, {"Out": parameters}, named, block=block)
    if layout.mode == TrainingMode.SYNC:
        apply("fetch_barrier", {}, {}, {**where, **_RPC}, block=block)


def _require_room(layout: JobLayout) -> None:
    """EnforceNotMet for a table that this machine has no memory for: GEO keeps each whole."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for one in layout.sparse:
        size = one.height * one.width * to_torch(as_dtype(one.dtype)).itemsize
        if size > memory:
            raise EnforceNotMet(
                f"GEO keeps table {one.name!r} whole in each trainer, and {one.height:,} rows of "
                f"{one.width} numbers take {size / 2**30:,.0f} GiB, of which this machine has "
                f"{memory / 2**30:,.0f}; in asynchronous mode (a_sync without k_steps, "
                "create_async_strategy) trainers hold no table"
            )


def _exchange_at_end(block: Block, side: TrainerSide) -> None:
    layout = side.layout
    tables = {one.name for one in layout.sparse}
    parameters = [*(one.name for one in layout.dense), *sorted(tables)]
    lookups = lookups_of(block.program)
    ids = [(name, op.input("Ids")[0]) for name in sorted(tables) for op in lookups.get(name, [])]
    servers = {"epmap": list(layout.servers), "trainer_id": side.trainer, **_RPC}
    names = [*parameters, *(f"{name}{LOOKED_UP}{number}" for number, (name, _) in enumerate(ids))]
    given = [*parameters, *(one for _, one in ids)]
    apply("send", {"X": given}, {}, {**servers, "send_varnames": names}, block=block)
    named = {**servers, "varnames": parameters, "with_barrier": False}
    apply("recv", {"X": parameters}, {"Out": parameters}, named, block=block)


# -- lookups ------------------------------------------------------------------


def make_lookups_remote(
    block: Block, layout: JobLayout, where: Mapping[str, Any], *, any_ids: bool = False
) -> None:
    """Those of one table become one operator, as far as their ids are there when the first runs.

    Ids are any numbers with any_ids, or where a lookup of the table says is_distributed; else rows.
    """
    tables = {one.name for one in layout.sparse}
    for name, ops in lookups_of(block.program).items():
        if name not in tables:
            continue
        anything = any_ids or any(op.attr("is_distributed") for op in ops)
        ends = {"height_sections": [] if anything else [layout.tables[name].height]}
        groups: list[list[Operator]] = []
        for op in ops:
            if groups and _fits(block, groups[-1][0], op):
                groups[-1].append(op)
            else:
                groups.append([op])
        for group in groups:
            _join(block, {**where, **ends}, name, group)


def _fits(block: Block, first: Operator, op: Operator) -> bool:
    alike = _read(op) == _read(first)
    (ids,), start, end = op.input("Ids"), first.idx, op.idx
    return alike and not any(ids in one.output_arg_names for one in block.ops[start:end])


def _read(op: Operator) -> dict[str, Any]:
    """How a lookup's ids are to be read."""
    version = op.attrs.get("lookup_table_version", op.type)
    return {"lookup_table_version": version, "padding_idx": op.attr("padding_idx")}


def _as_added_up(block: Block, ops: Sequence[Operator]) -> Sequence[Operator]:
    """The lookups in the order in which their gradients' rows come: ids that were dealt to servers
    to be looked up are those of the gradient then, and needn't be dealt anew."""
    slopes, places = dict[str, str](), dict[str, int]()
    for op in block.ops:
        if op.type == "sum":
            places |= {name: place for place, name in enumerate(op.input("X"))}
        elif op.input("Out" + GRAD) and op.output("W" + GRAD):
            slopes[op.input("Out" + GRAD)[0]] = op.output("W" + GRAD)[0]
    found = [places.get(slopes.get(op.output("Out")[0] + GRAD, "")) for op in ops]
    order = [(place, number) for number, place in enumerate(found) if place is not None]
    return ops if len(order) < len(ops) else [ops[number] for _, number in sorted(order)]


def _join(block: Block, where: Mapping[str, Any], table: str, ops: Sequence[Operator]) -> None:
    first, ordered = ops[0], _as_added_up(block, ops)
    place = first.idx
    attrs: Mapping[str, Any] = {
        **where,
        "table_names": [table],
        **_read(first),
        CALLSTACK: list(first.callstack),
    }
    inputs = {"Ids": [op.input("Ids")[0] for op in ordered], "W": table}
    outputs = {"Outputs": [op.output("Out")[0] for op in ordered]}
    Editor(block).remove(*ops)
    with block.program.roles(OpRole.FORWARD):
        apply("distributed_lookup_table", inputs, outputs, attrs, block=block, index=place)


# -- beginning ----------------------------------------------------------------


def rewrite_startup(startup: Program, side: TrainerSide) -> None:
    """Parameters come from the servers; what only these have isn't made."""
    block, layout = startup.global_block(), side.layout
    names = [one.name for one in layout.dense]
    editor = Editor(block)
    if layout.mode == TrainingMode.GEO:
        names += [one.name for one in layout.sparse]
    else:
        gone = {name for update in side.updates for name in update.state}
        editor.keep(lambda op: not set(op.output_arg_names) & gone)
        editor.forget_variables(gone)
        editor.keep(lambda op: not set(op.output_arg_names) & layout.tables.keys())
        for name, table in layout.tables.items():
            shape = {"shape": [table.height, table.width]}
            apply("fake_init", {}, {"Out": name}, shape, block=block)
    _draw_alike(startup, {*names, *layout.tables})
    if layout.sparse and not names:
        return
    if names:
        servers = {"epmap": list(layout.servers), "trainer_id": side.trainer, **_RPC}
        named = {**servers, "varnames": names, "with_barrier": True}
        apply("recv", {"X": names}, {"Out": names}, named, block=block)
    apply("fetch_barrier", {}, {}, {**side.where, **_RPC}, block=block)


def _draw_alike(startup: Program, served: Set[str]) -> None:
    """What servers don't have (parameters that aren't trained) begins alike in all trainers.

    As in tables the numbers follow from the name, unless the user gave a seed.
    """
    if startup.random_seed:
        return
    for op in startup.global_block().ops:
        (*names,) = op.output_arg_names
        if op.attrs.get("seed") == 0 and served.isdisjoint(names):
            op.set_attr("seed", 1 + stable_hash(names[0]) % (2**31 - 1))
