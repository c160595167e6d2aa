"""Servers that come and go, in threads: each as its process would run it."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import refluid.fluid as fluid
from refluid.core.ports import free_endpoints
from refluid.pserver.asking import ask_for_change
from refluid.pserver.checkpoints import ServerCheckpoints, note_address
from refluid.pserver.elastic import (
    ComingServer,
    changing_server,
    coming,
    conductor,
    join,
    stand_in,
)
from refluid.pserver.layout import TrainingMode
from refluid.pserver.lookout import present_layout
from refluid.pserver.server_making import table_server
from refluid.pserver.server_programs import server_program, server_startup
from refluid.pserver.service import Service
from refluid.pserver.split import SplitOptions, split
from refluid.pserver.table_client import TableClient
from refluid.pserver.table_server import TableServer
from tests.pserver.tables import network


class ServerThread:
    """One server of a job at an address, which looks after itself as `Serving` has it do."""

    def __init__(self, job: ChangingJob, address: str, number: int, *, joins: bool) -> None:
        parts, self.address = job.split, address
        folder = None if job.folder is None else str(job.folder)
        place, first = ComingServer(number, False), parts.layout.servers
        servers = [address if one == number else own for one, own in enumerate(first)]
        layout = replace(parts.layout, servers=tuple(servers))
        if joins:
            known = replace(layout, servers=tuple(job.addresses))
            place = coming(known, address, folder)
        scope = fluid.Scope()
        alike = 0 if joins else number
        program = server_program(parts.side, alike, parts.layout.servers[alike])
        fluid.Executor().run(server_startup(parts.side, alike), scope=scope)
        self.server: TableServer = table_server(program, layout, scope)
        self.server.number, self.server.joins = place.number, place.joins
        self.server.hold = 0.5
        self.changing = changing = changing_server(self.server, parts.side, None)
        self.deciding = conductor(changing, None, stand_in(parts.side, folder, address, None))
        self.kept = None
        if job.folder is not None:
            self.kept = ServerCheckpoints(self.server, job.folder, logs=job.logs)
            if not job.logs:
                changing.durable = self.kept.write
        restored = self.kept is not None and self.kept.restore()
        if not restored and place.layout is not None and not self.server.joins:
            changing.adopt(place.layout)
        self.service = Service(self.server, address)
        self.service.start()
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        if self.server.joins:
            join(self.server, job.addresses, address, self.deciding.follow)
            if folder is not None:
                note_address(folder, place.number, address)
        self._thread.start()

    def _look(self) -> None:
        while not self.ended.wait(0.2):
            self.server.tick()
            self.deciding.follow()

    def kill(self) -> None:
        """As if its process were killed: nothing more is answered or written."""
        self.ended.set()
        self.service.stop(0.0)
        if self.kept is not None:
            self.kept.close()
        if self._thread.ident is not None:
            self._thread.join()


class ChangingJob:
    """A job whose servers come and go."""

    def __init__(
        self,
        mode: TrainingMode,
        trainers: int,
        folder: Path | None,
        *,
        servers: int = 2,
        logs: bool = False,
        **options: Any,
    ) -> None:
        main, startup, _ = network(**options)
        self.addresses, self.folder, self.logs = free_endpoints(servers), folder, logs
        self.split = split(main, startup, self.addresses, trainers, 0, mode, SplitOptions(least=1))
        self.servers = {
            number: ServerThread(self, address, number, joins=False)
            for number, address in enumerate(self.addresses)
        }

    def add(self) -> int:
        """One more; its number."""
        (address,) = free_endpoints(1)
        number = len(present_layout(self.addresses, 10.0).servers)
        self.servers[number] = ServerThread(self, address, number, joins=True)
        self.addresses = self._there()
        return number

    def remove(self, number: int, *, lost: bool = False) -> Any:
        """One less, killed first where it is to be lost."""
        if lost:
            self.servers[number].kill()
        known = [one for one in self._there() if one != self.servers[number].address]
        found = ask_for_change(known, {"remove": number, "lost": lost}, secrets.randbits(62) | 1)
        if not lost:
            self.servers[number].kill()
        del self.servers[number]
        self.addresses = self._there()
        return found

    def restart(self, number: int, address: str | None = None) -> None:
        """Killed, and started again from what it kept."""
        former = self.servers[number]
        former.kill()
        joins = number >= len(self.split.layout.servers)
        where = address or former.address
        self.servers[number] = ServerThread(self, where, number, joins=joins)

    def _there(self) -> list[str]:
        return [one.address for one in self.servers.values()]

    def client(self, trainer: int, **options: Any) -> TableClient:
        """A trainer that has entered."""
        made = TableClient(self.split.layout, trainer, **{"patience": 60.0, **options})
        made.enter()
        return made

    def tables(self, numbers: Sequence[int] | None = None) -> dict[int, list[int]]:
        """The ids that each server has rows of."""
        found = {}
        for number in numbers or self.servers:
            table = self.servers[number].server.tables.sparse["emb"]
            found[number] = sorted(table.chunk(0, table.rows)[0].tolist())
        return found


@contextmanager
def changing_job(*given: Any, **options: Any) -> Iterator[ChangingJob]:
    """A job whose servers end with the block."""
    made = ChangingJob(*given, **options)
    try:
        yield made
    finally:
        for one in made.servers.values():
            one.kill()
