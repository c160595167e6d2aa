"""A server's program run: its tables made, its port opened, until all trainers are gone."""

from __future__ import annotations

import logging
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import torch

from refluid.core.errors import EnforceNotMet
from refluid.core.flags import environment_int, environment_str
from refluid.core.scope import Scope
from refluid.ir.program import Program
from refluid.kernels.rows.ids import unique_ids
from refluid.pserver.asking import ask_for_change
from refluid.pserver.checkpoints import (
    ServerCheckpoints,
    has_checkpoint,
    note_address,
    server_folder,
)
from refluid.pserver.conducting import Conductor
from refluid.pserver.elastic import (
    ComingServer,
    changing_server,
    coming,
    conductor,
    join,
    stand_in,
)
from refluid.pserver.layout import JobLayout
from refluid.pserver.lookout import present_layout
from refluid.pserver.server_making import table_server
from refluid.pserver.server_programs import ServerSide
from refluid.pserver.service import Service
from refluid.pserver.table_making import TableMaking, making_of_environment
from refluid.pserver.table_server import TableServer
from refluid.pserver.wire import keys_of_environment
from refluid.runtime.allocator import keep_freed_blocks

_LOGGER = logging.getLogger("refluid")
_LOOK = 0.2
# In the environment: where checkpoints are kept, every how many seconds, and whether with a log.
_FOLDER, _SECONDS = "REFLUID_SERVER_CHECKPOINTS", "REFLUID_SERVER_CHECKPOINT_SECONDS"
_LOG, _USUAL_SECONDS = "REFLUID_SERVER_LOG", 600
# The address of a server that comes to a running job; its script's place is that of another one.
_JOINS = "REFLUID_SERVER_JOINS"
# How long others of the job are looked for, and one that isn't needed any more still says so.
_FINDS, _LINGERS = 10.0, 3.0


@dataclass
class Serving:
    """A server's program, to be run by an executor in the place of an ordinary one.

    side: of the job's programs. made: called with the server before it is asked anything, as to
    load tables. ended: has it end though trainers are there.
    """

    program: Program
    side: ServerSide
    made: Callable[[TableServer], None] | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def layout(self) -> JobLayout:
        """What is where as the job begins."""
        return self.side.layout

    def run(self, scope: Scope) -> None:
        """Serves until all trainers came and are gone, or the process is asked to end.

        SystemExit where SIGTERM asks while there are trainers: who started it may do so again.
        """
        keep_freed_blocks()  # messages and rows are as large in each step
        head = self.program.global_block().ops[-1]
        joins, keys = environment_str(_JOINS), keys_of_environment()
        folder, address = environment_str(_FOLDER), joins or head.attr("endpoint")
        place = ComingServer(head.attr("pserver_id"), False)
        if joins is not None:
            place = coming(self.layout, joins, folder)
        number, others = place.number, place.layout
        goes_on = folder is not None and has_checkpoint(server_folder(folder, number))
        making = making_of_environment(len(self.layout.sparse), number, goes_on=goes_on)
        server = table_server(self.program, self.layout, scope, making)
        server.number, server.joins = number, place.joins
        changing = changing_server(server, self.side, keys)
        deciding = conductor(changing, keys, stand_in(self.side, folder, address, keys))
        kept = _checkpoints(server, folder, making)
        if kept is not None and not kept.logs:
            changing.durable = kept.write
        restored = kept is not None and kept.restore()
        if not restored and self.made is not None:
            self.made(server)
        if not restored and others is not None and not server.joins:
            changing.adopt(others)
        service = Service(server, address, keys=keys)
        try:
            with _terminable(self.ended) as signals:  # before the first trainer is answered
                service.start()
                _find_others(server, address, deciding, goes_on=goes_on)
                if joins is not None and folder is not None:
                    note_address(folder, number, address)
                self._wait(server, kept, deciding)
        finally:
            service.stop()
            if kept is not None:
                kept.close()
            _LOGGER.info("server %s ends: %s", service.address, server.state())
            if making.store is not None:
                making.store.close()
        if signals and not server.over:
            raise SystemExit(128 + signals[0])

    def _wait(
        self, server: TableServer, kept: ServerCheckpoints | None, deciding: Conductor
    ) -> None:
        every = float(environment_int(_SECONDS, _USUAL_SECONDS) or _USUAL_SECONDS)
        ticks = written = time.monotonic()
        while not self.ended.wait(_LOOK) and not server.over:
            now = time.monotonic()
            if now - ticks > min(1.0, server.members.lease / 4):
                ticks = now
                server.tick()
                deciding.follow()
            if kept is not None and now - written > every:
                written = now
                _write(kept)
            if server.number not in server.layout.numbers and not server.joins:
                self.ended.wait(_LINGERS)
                return
        if kept is not None and not server.over:
            _write(kept)


def _find_others(server: TableServer, address: str, deciding: Conductor, *, goes_on: bool) -> None:
    """Tells the others where this server is, if it is new to them there.

    EnforceNotMet where they refuse it.
    """
    layout = server.layout
    others = [one for one in layout.servers if one and one != address]
    if server.joins:
        unique_ids(torch.zeros(1, dtype=torch.int64))  # loads loops before trainers wait for it
        join(server, others, address, deciding.follow)
    elif goes_on and others:
        does = threading.Thread(target=_move_here, args=(server, address, others), daemon=True)
        does.start()


def _move_here(server: TableServer, address: str, others: list[str]) -> None:
    with suppress(EnforceNotMet):
        known = present_layout(others, _FINDS)
        if server.number in known.numbers and known.servers[server.number] != address:
            told = {"move": server.number, "to": address}
            ask_for_change(others, told, secrets.randbits(62) | 1)


def _checkpoints(
    server: TableServer, folder: str | None, making: TableMaking
) -> ServerCheckpoints | None:
    """A server's checkpoints, where the environment names a folder for them."""
    if folder is None:
        return None
    logs = environment_str(_LOG) == "1"
    made = ServerCheckpoints(server, folder, logs=logs, store=making.store)
    server.save = lambda _values: made.write()
    return made


def _write(kept: ServerCheckpoints) -> None:
    """Writes a checkpoint; one that can't be written is told of, and training goes on."""
    try:
        kept.write()
    except (EnforceNotMet, OSError) as error:
        _LOGGER.error("no checkpoint was written: %s", error)


@contextmanager
def _terminable(ended: threading.Event) -> Iterator[list[int]]:
    """Within the block SIGTERM sets `ended`, where the main thread is in it; those that came."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def end(number: int, _frame: object) -> None:
        came.append(number)
        ended.set()

    former = signal.signal(signal.SIGTERM, end)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, former)
