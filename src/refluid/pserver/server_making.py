"""A server's tables as its program describes them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch

from refluid.core import flags
from refluid.core.dtypes import to_torch
from refluid.core.scope import Scope
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.kernels.rows.draws import RowDraws
from refluid.pserver.applying import Applying, EachPush, MeanOfPushes, ServedTables
from refluid.pserver.dense_tables import DenseTables
from refluid.pserver.layout import JobLayout, TrainingMode
from refluid.pserver.members import TrainerRoll
from refluid.pserver.row_updates import RowUpdate
from refluid.pserver.table_making import TableMaking
from refluid.pserver.table_server import TableServer
from refluid.pserver.table_spec import TableSpec
from refluid.pserver.updates import draws_of

_LEASE = 30.0


def lease_seconds() -> float:
    """For how long a trainer counts that isn't heard of."""
    if flags.was_set("worker_update_interval_secs"):
        return float(flags.value("worker_update_interval_secs"))
    return _LEASE


def table_server(
    program: Program, layout: JobLayout, scope: Scope, making: TableMaking | None = None
) -> TableServer:
    """The server that a program describes, its variables being in `scope`."""
    head = program.global_block().ops[-1]
    how = making or TableMaking()
    dense, (blocks, params) = dense_tables(program, scope), _blocks(program, head)
    specs: Mapping[str, TableSpec] = {
        name: table_spec(blocks[gradient], name, gradient) for gradient, name in params.items()
    }
    tables = ServedTables(
        dense, {name: how.make(specs[name], layout.tables[name]) for name in specs}
    )
    mode = TrainingMode(head.attr("distributed_mode"))
    applying: Applying = MeanOfPushes(tables) if mode == TrainingMode.SYNC else EachPush(tables)
    patience = float(flags.value("rpc_deadline")) / 1000
    members = TrainerRoll(head.attr("Fanin"), lease_seconds(), time.monotonic, patience)
    made = TableServer(tables, applying, members, layout)
    made.number = head.attr("pserver_id")
    return made


def dense_tables(program: Program, scope: Scope) -> DenseTables:
    """The slices that a server's program updates, their variables being in `scope`."""
    head = program.global_block().ops[-1]
    blocks, tables = _blocks(program, head)
    number = head.attr("lr_decay_block_id")
    schedule = program.block(number) if number >= 0 else None
    updates = {
        gradient: (block, _updated(block, gradient))
        for gradient, block in blocks.items()
        if gradient not in tables
    }
    _own_memory(scope)
    return DenseTables(program, updates, schedule, scope)


def _blocks(program: Program, head: Operator) -> tuple[dict[str, Block], dict[str, str]]:
    """The block of each gradient; of those of tables, which table it updates."""
    blocks = {}
    for entry in head.attr("grad_to_block_id"):
        gradient, _, number = entry.rpartition(":")
        blocks[gradient] = program.block(int(number))
    return blocks, dict(entry.rsplit(":", 1) for entry in head.attr("sparse_grad_to_param"))


def _updated(block: Block, gradient: str) -> str:
    """The parameter that a block updates."""
    for op in block.ops:
        if op.input("Param") and op.output("ParamOut"):
            return op.input("Param")[0]
    return gradient


def table_spec(block: Block, name: str, gradient: str) -> TableSpec:
    """The table that a block describes: operators without inputs say how its variables begin."""
    first = [op for op in block.ops if not op.input_arg_names]
    others = [op for op in block.ops if op.input_arg_names]
    draws: dict[str, RowDraws] = {}
    for op in first:
        (own,) = op.output_arg_names
        found = draws_of(op, own)
        if found is not None:
            draws[own] = found
    draws = {name: draws.pop(name), **draws}
    variables = {own: block.var_recursive(own) for own in draws}
    columns = {own: int(torch.Size(var.shape[1:]).numel()) for own, var in variables.items()}
    update = RowUpdate(others, name, gradient, tuple(draws)) if others else None
    return TableSpec(name, to_torch(variables[name].dtype), columns, draws, update)


def _own_memory(scope: Scope) -> None:
    """Gives slices memory of their own, so that what they were cut of goes."""
    for name in scope.local_var_names():
        cell: Any = scope.find_var(name)
        value = cell.value
        if isinstance(value, torch.Tensor) and value.untyped_storage().nbytes() > value.nbytes:
            cell.value = value.clone()
