"""A server's program run: its tables made, its port opened, until all trainers are gone."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from refluid.core import flags
from refluid.core.dtypes import to_torch
from refluid.core.errors import EnforceNotMet
from refluid.core.flags import environment_int, environment_str
from refluid.core.scope import Scope
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.kernels.rows.draws import RowDraws
from refluid.pserver.applying import Applying, EachPush, MeanOfPushes, ServedTables
from refluid.pserver.checkpoints import ServerCheckpoints, has_checkpoint, server_folder
from refluid.pserver.dense_tables import DenseTables
from refluid.pserver.layout import JobLayout, TrainingMode, described
from refluid.pserver.members import TrainerRoll
from refluid.pserver.row_updates import RowUpdate
from refluid.pserver.service import Service
from refluid.pserver.table_making import TableMaking, making_of_environment
from refluid.pserver.table_server import TableServer
from refluid.pserver.table_spec import TableSpec
from refluid.pserver.updates import draws_of
from refluid.pserver.wire import keys_of_environment

_LOGGER = logging.getLogger("refluid")
_LEASE = 30.0
_LOOK = 0.2
# In the environment: where checkpoints are kept, every how many seconds, and whether with a log.
_FOLDER, _SECONDS = "REFLUID_SERVER_CHECKPOINTS", "REFLUID_SERVER_CHECKPOINT_SECONDS"
_LOG, _USUAL_SECONDS = "REFLUID_SERVER_LOG", 600


@dataclass
class Serving:
    """A server's program, to be run by an executor in the place of an ordinary one.

    made: called with the server before it is asked anything, as to load tables. ended: has it end
    though trainers are there.
    """

    program: Program
    layout: JobLayout
    made: Callable[[TableServer], None] | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self, scope: Scope) -> None:
        """Serves until all trainers came and are gone, or the process is asked to end."""
        head = self.program.global_block().ops[-1]
        number = head.attr("pserver_id")
        folder = environment_str(_FOLDER)
        goes_on = folder is not None and has_checkpoint(server_folder(folder, number))
        making = making_of_environment(len(self.layout.sparse), number, goes_on=goes_on)
        server = table_server(self.program, self.layout, scope, making)
        kept = _checkpoints(server, making)
        if (kept is None or not kept.restore()) and self.made is not None:
            self.made(server)
        service = Service(server, head.attr("endpoint"), keys=keys_of_environment())
        service.start()
        try:
            with _terminable(self.ended):
                self._wait(server, kept)
        finally:
            service.stop()
            if kept is not None:
                kept.close()
            _LOGGER.info("server %s ends: %s", service.address, server.state())
            if making.store is not None:
                making.store.close()

    def _wait(self, server: TableServer, kept: ServerCheckpoints | None) -> None:
        every = float(environment_int(_SECONDS, _USUAL_SECONDS) or _USUAL_SECONDS)
        ticks = written = time.monotonic()
        while not self.ended.wait(_LOOK) and not server.over:
            now = time.monotonic()
            if now - ticks > min(1.0, server.members.lease / 4):
                ticks = now
                server.tick()
            if kept is not None and now - written > every:
                written = now
                _write(kept)
        if kept is not None and not server.over:
            _write(kept)


def _checkpoints(server: TableServer, making: TableMaking) -> ServerCheckpoints | None:
    """A server's checkpoints, where the environment names a folder for them."""
    folder = environment_str(_FOLDER)
    made = None
    if folder is not None:
        logs = environment_str(_LOG) == "1"
        made = ServerCheckpoints(server, folder, logs=logs, store=making.store)
        server.save = lambda _values: made.write() if made else None
    return made


def _write(kept: ServerCheckpoints) -> None:
    """Writes a checkpoint; one that can't be written is told of, and training goes on."""
    try:
        kept.write()
    except (EnforceNotMet, OSError) as error:
        _LOGGER.error("no checkpoint was written: %s", error)


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
    known = {one.name: one for one in layout.sparse}
    how = making or TableMaking()
    dense, specs = _tables(program, head, scope)
    tables = ServedTables(dense, {name: how.make(specs[name], known[name]) for name in specs})
    mode = TrainingMode(head.attr("distributed_mode"))
    applying: Applying = MeanOfPushes(tables) if mode == TrainingMode.SYNC else EachPush(tables)
    patience = float(flags.value("rpc_deadline")) / 1000
    members = TrainerRoll(head.attr("Fanin"), lease_seconds(), time.monotonic, patience)
    made = TableServer(tables, applying, members, layout.job, about=described(layout))
    made.number = head.attr("pserver_id")
    return made


def _tables(
    program: Program, head: Operator, scope: Scope
) -> tuple[DenseTables, Mapping[str, TableSpec]]:
    blocks = {}
    for entry in head.attr("grad_to_block_id"):
        gradient, _, number = entry.rpartition(":")
        blocks[gradient] = program.block(int(number))
    params = dict(entry.rsplit(":", 1) for entry in head.attr("sparse_grad_to_param"))
    number = head.attr("lr_decay_block_id")
    schedule = program.block(number) if number >= 0 else None
    updates = {
        gradient: (block, _updated(block, gradient))
        for gradient, block in blocks.items()
        if gradient not in params
    }
    _own_memory(scope)
    dense = DenseTables(program, updates, schedule, scope)
    sparse = {
        name: table_spec(blocks[gradient], name, gradient) for gradient, name in params.items()
    }
    return dense, sparse


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


@contextmanager
def _terminable(ended: threading.Event) -> Iterator[None]:
    """Within the block SIGTERM sets `ended`, where the main thread is in it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
