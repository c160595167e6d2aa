"""A server's programs: one block for each update that it makes, and what they begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from refluid.build import apply
from refluid.ir.attributes import ROLE, OpRole
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program, copy_op
from refluid.pserver.layout import DenseParameter, DenseSlice, JobLayout, TrainingMode
from refluid.pserver.updates import ParameterUpdate, initial_op, schedule_of

_RPC = {ROLE: int(OpRole.RPC)}


@dataclass(frozen=True)
class ServerSide:
    """What servers' programs are made of: the programs of one process, and who has what.

    updates: by parameter.
    """

    main: Program
    startup: Program
    layout: JobLayout
    updates: Mapping[str, ParameterUpdate]


def slices_of(layout: JobLayout, server: int) -> list[tuple[DenseParameter, DenseSlice]]:
    """The slices that one server has."""
    return [(one, part) for one in layout.dense for part in one.slices if part.server == server]


def is_cut(param: DenseParameter) -> bool:
    """Whether it has several slices, so that these have names of their own."""
    return len(param.slices) > 1


def own_name(param: DenseParameter, part: DenseSlice, name: str) -> str:
    """What the server calls the part of a parameter's gradient or of what is kept for it."""
    return name + part.name.removeprefix(param.name) if is_cut(param) else name


# -- what a server runs -------------------------------------------------------


def slice_names(side: ServerSide, layout: JobLayout, server: int) -> dict[str, list[str]]:
    """By the name of each slice that a server has: all that it keeps for it."""
    kept = {
        param.name: [param.name, *side.updates[param.name].state] for param in side.layout.dense
    }
    return {
        part.name: [own_name(param, part, name) for name in kept[param.name]]
        for param, part in slices_of(layout, server)
    }


def server_program(side: ServerSide, server: int, endpoint: str) -> Program:
    """The program of a server at `endpoint`: `listen_and_serv`, with a block for each update."""
    layout, made = side.layout, side.main.clone()
    block = made.global_block()
    held = slices_of(layout, server)
    geo = layout.mode == TrainingMode.GEO
    rates = [name for one in side.updates.values() for name in one.op.input("LearningRate")]
    schedule = [] if geo else _copies(schedule_of(side.main, rates), block)
    wanted = [side.updates[param.name] for param, _ in held]
    parts = list(zip(held, [_copies(one.ops, block) for one in wanted], strict=True))
    tables = [(one, _table_ops(side, one.name, block)) for one in layout.sparse]
    Editor(block).assign([])
    lr_block = _block_of(made, schedule) if schedule else None
    blocks, gradients = [], []
    for (param, part), ops in parts:
        inner = _block_of(made, [] if geo else ops)
        _rename(inner, param, part, side.updates[param.name])
        blocks.append(inner)
        own = part.name if geo else own_name(param, part, param.gradient)
        gradients.append(f"{own}:{inner.idx}")
    for table, ops in tables:
        inner = _block_of(made, ops)
        blocks.append(inner)
        gradients.append(f"{table.gradient}:{inner.idx}")
    settings = {
        "endpoint": endpoint,
        "pserver_id": server,
        "Fanin": layout.trainers,
        "distributed_mode": int(layout.mode),
        "optimize_blocks": blocks,
        "grad_to_block_id": gradients,
        "sparse_grad_to_param": [f"{one.gradient}:{one.name}" for one in layout.sparse],
        "lr_decay_block_id": lr_block.idx if lr_block else -1,
    }
    for name in rates:
        block.vars[name].persistable = True
    apply("listen_and_serv", {}, {}, {**settings, **_RPC}, block=block)
    _forget_unused(made)
    return made


def _copies(ops: Sequence[Operator], block: Block) -> list[Operator]:
    return [copy_op(op, block) for op in ops]


def _block_of(program: Program, ops: Sequence[Operator]) -> Block:
    inner = program.create_block(0)
    program.rollback()
    Editor(inner).assign(copy_op(op, inner) for op in ops)
    return inner


def _table_ops(side: ServerSide, name: str, block: Block) -> list[Operator]:
    """How a table's rows begin, with what is kept for them, and how they are updated."""
    update = side.updates[name]
    first = [initial_op(side.startup, one) for one in (name, *row_state(update))]
    begin = [copy_op(op, block) for op in first if op is not None]
    if side.layout.mode == TrainingMode.GEO:
        return begin[:1]
    return begin + _copies(update.ops, block)


def row_state(update: ParameterUpdate) -> list[str]:
    """What the optimizer keeps for each row of a parameter."""
    block, shape = update.op.block, update.param.shape
    return [name for name in update.state if block.vars[name].shape == shape]


def _rename(block: Block, param: DenseParameter, part: DenseSlice, update: ParameterUpdate) -> None:
    """Has the operators update one slice, and declares what belongs to it."""
    home = block.program.global_block()
    for name in (param.name, param.gradient, *update.state):
        own = own_name(param, part, name)
        var = home.vars[name]
        shape = list(var.shape)
        if tuple(shape) == param.shape:
            shape[:1] = [part.end - part.begin]
        for op in block.ops:
            op.rename_input(name, own)
            op.rename_output(name, own)
        if own != name:
            kept = name != param.gradient
            home.create_var(name=own, shape=shape, dtype=var.dtype, persistable=kept)


def _forget_unused(program: Program) -> None:
    """Drops variables of the trainer's part."""
    used: set[str] = set()
    head = program.global_block().ops[-1]
    schedule = head.attr("lr_decay_block_id")
    reached = [program.global_block(), *([program.block(schedule)] if schedule >= 0 else [])]
    for block in reached:
        for op in block.ops:
            used |= set(op.arg_names)
            reached += [one for one in op.sub_blocks() if one not in reached]
    block = program.global_block()
    for one in program.blocks:
        if one not in reached:
            Editor(one).assign([])
            Editor(one).forget_variables(list(one.vars))
    served = {name.partition(":")[0] for name in head.attr("grad_to_block_id")}
    Editor(block).forget_variables(block.vars.keys() - used - served)


# -- what it begins with ------------------------------------------------------


def server_startup(side: ServerSide, server: int) -> Program:
    """The startup program of a server: its slices, and what is kept for them."""
    layout, made = side.layout, side.startup.clone()
    block = made.global_block()
    held = slices_of(layout, server)
    geo = layout.mode == TrainingMode.GEO
    state = [name for one in side.updates.values() for name in one.state]
    tables = {one.name for one in layout.sparse}
    rows = {name for one in tables for name in row_state(side.updates[one])}
    wanted = {param.name for param, _ in held}
    if not geo:
        wanted |= _rates(side)
        for name in (*wanted, *tables):
            if name in side.updates:
                wanted |= set(side.updates[name].state)
    others = set(state) | {one.name for one in layout.dense} | tables
    keep = (wanted | _needed(side.startup, wanted)) - rows - tables
    Editor(block).keep(lambda op: bool(set(op.output_arg_names) & keep))
    Editor(block).forget_variables(others - keep)
    for param, part in held:
        if is_cut(param):
            update = side.updates[param.name]
            for name in (param.name, *([] if geo else update.state)):
                _cut(block, param, part, name)
    return made


def _rates(side: ServerSide) -> set[str]:
    """Variables that learning rates are made of."""
    rates = {name for one in side.updates.values() for name in one.op.input("LearningRate")}
    ops = schedule_of(side.main, rates)
    names = {name for op in ops for name in op.arg_names}
    for op in ops:
        names |= {name for inner in op.sub_blocks() for one in inner.ops for name in one.arg_names}
    return rates | names


def _needed(startup: Program, wanted: set[str]) -> set[str]:
    """What the operators of a startup program read to give these variables their values."""
    needed: set[str] = set()
    for op in reversed(startup.global_block().ops):
        if set(op.output_arg_names) & (wanted | needed):
            needed |= set(op.input_arg_names)
    return needed


def _cut(block: Block, param: DenseParameter, part: DenseSlice, name: str) -> None:
    """Appends the operator that takes one slice of a variable, which is then dropped."""
    whole = block.vars[name]
    own = own_name(param, part, name)
    shape = list(whole.shape)
    if tuple(shape) == param.shape:
        shape[:1] = [part.end - part.begin]
        made = block.create_var(name=own, shape=shape, dtype=whole.dtype, persistable=True)
        ends = {"axes": [0], "starts": [part.begin], "ends": [part.end]}
        apply("slice", {"Input": whole}, {"Out": made}, ends, block=block)
    else:
        made = block.create_var(name=own, shape=shape, dtype=whole.dtype, persistable=True)
        apply("assign", {"X": whole}, {"Out": made}, block=block)
    whole.persistable = False
