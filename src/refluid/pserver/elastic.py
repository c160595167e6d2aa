"""What a server needs so that others may come and go, put together of its programs."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from refluid.core.errors import EnforceNotMet
from refluid.core.places import CPUPlace
from refluid.core.scope import Scope
from refluid.engine.group import Group
from refluid.engine.prepare import prepare
from refluid.engine.strategy import DEFAULT
from refluid.ir.program import Program
from refluid.pserver.asking import ask_for_change
from refluid.pserver.calling import Servers
from refluid.pserver.changing import ChangingServer, ServerChange
from refluid.pserver.checkpoints import (
    ServerCheckpoints,
    has_checkpoint,
    number_at,
    server_folder,
)
from refluid.pserver.conducting import Conductor
from refluid.pserver.layout import JobLayout
from refluid.pserver.lookout import present_layout
from refluid.pserver.moving import RowMover
from refluid.pserver.server_making import dense_tables, table_server
from refluid.pserver.server_programs import ServerSide, server_program, server_startup, slice_names
from refluid.pserver.service import Service
from refluid.pserver.table_making import making_of_environment
from refluid.pserver.table_server import TableServer
from refluid.pserver.wire import Keys

_LOGGER = logging.getLogger("refluid")
# How long servers wait for each other while one comes or goes.
_PATIENCE = 60.0
# How long others of the job are looked for, and until a server that was let in hears of it.
_FINDS, _HEARS = 10.0, 3.0
_AGAIN = 0.2
StandIn = Callable[[int, JobLayout], tuple[str, Callable[[], None]]]


def changing_server(server: TableServer, side: ServerSide, keys: Keys | None) -> ChangingServer:
    """Has a server of these programs do its part when others come or go."""

    def adopt(layout: JobLayout) -> None:
        scope = server.tables.dense.scope
        _make_missing(server, replace(side, layout=layout), scope)
        address = layout.servers[server.number] if server.number < len(layout.servers) else ""
        program = server_program(replace(side, layout=layout), server.number, address)
        server.tables.dense = dense_tables(program, scope)
        server.layout = layout

    def mover(change: ServerChange) -> RowMover:
        servers = Servers(change.target.servers, _PATIENCE, keys=keys)
        return RowMover(server, servers, change.target, change.token)

    def names(layout: JobLayout, number: int) -> dict[str, list[str]]:
        return slice_names(side, layout, number)

    return ChangingServer(server, adopt, names, mover)


def conductor(changing: ChangingServer, keys: Keys | None, stand_in: StandIn) -> Conductor:
    """Has a server decide about changes where it is the first."""

    def reach(addresses: Sequence[str]) -> Servers:
        return Servers(addresses, _PATIENCE, keys=keys)

    return Conductor(changing, reach, stand_in)


def stand_in(side: ServerSide, folder: str | None, address: str, keys: Keys | None) -> StandIn:
    """Makes what answers for a lost server, beside the server at `address`.

    folder: where checkpoints are. What has none begins anew.
    """

    def made(number: int, layout: JobLayout) -> tuple[str, Callable[[], None]]:
        goes_on = folder is not None and has_checkpoint(server_folder(folder, number))
        making = making_of_environment(len(layout.sparse), number, goes_on=goes_on)
        scope = Scope()
        _run_once(server_startup(side, number), scope)
        program = server_program(side, number, layout.servers[number])
        server = table_server(program, side.layout, scope, making)
        server.joins = number not in side.layout.numbers
        changing = changing_server(server, side, keys)
        kept = None if folder is None else ServerCheckpoints(server, folder, store=making.store)
        if kept is None or not kept.restore():
            _LOGGER.warning("server %d left no checkpoint: what it had begins anew", number)
            changing.adopt(layout)
        if changing.change is not None:
            with server.changed:
                ended = changing.change.target.epoch <= layout.epoch
                (changing.commit if ended else changing.abort)(changing.change)
        if server.layout.epoch != layout.epoch:
            raise EnforceNotMet(
                f"the checkpoint of server {number} is of when servers had changed "
                f"{server.layout.epoch} times; now it is {layout.epoch}"
            )
        service = Service(server, f"{address.rpartition(':')[0]}:0", keys=keys)
        service.start()

        def end() -> None:
            service.stop()
            if making.store is not None:
                making.store.close()

        return service.address, end

    return made


@dataclass(frozen=True)
class ComingServer:
    """A server that came to a running job, or comes. layout: what the others said, if any did."""

    number: int
    joins: bool
    layout: JobLayout | None = None


def coming(layout: JobLayout, address: str, folder: str | None) -> ComingServer:
    """The place of the server at an address which isn't one of the job's first.

    ServerUnreachable where no other one answers, and it wasn't there before.
    """
    known = None if folder is None else number_at(folder, address)
    if known is not None:
        return ComingServer(known, False)
    present = present_layout(layout.servers, _FINDS)
    if address in present.servers:
        return ComingServer(present.servers.index(address), False, present)
    return ComingServer(len(present.servers), True, present)


def join(
    server: TableServer, others: Sequence[str], address: str, follow: Callable[[], None]
) -> None:
    """Has a job's other servers let this one in, which listens. EnforceNotMet where they don't.

    follow: asks, now and then, how a change ended (`Conductor.follow`). Who decides may be killed
    once it has let this server in, before it says so: begun again, it refuses the wish. So does it
    where the wish of a process that was killed here let this one in.
    """
    refused: EnforceNotMet | None = None
    try:
        ask_for_change(others, {"add": address}, secrets.randbits(62) | 1)
    except EnforceNotMet as error:
        refused = error
    ended = time.monotonic()
    while server.joins:
        if time.monotonic() - ended > (_PATIENCE if server.frozen else _HEARS):
            raise refused or EnforceNotMet("the other servers don't say that this one is in")
        follow()
        time.sleep(_AGAIN)


def _run_once(program: Program, scope: Scope) -> None:
    prepare(program, (), (), DEFAULT, Group([CPUPlace()])).run(scope, [])


def _make_missing(server: TableServer, side: ServerSide, scope: Scope) -> None:
    """Slices that nobody could hand on begin anew."""
    wanted = slice_names(side, side.layout, server.number)
    lacking = [
        name for names in wanted.values() for name in names[:1] if scope.find_var(name) is None
    ]
    if not lacking:
        return
    _LOGGER.warning("%s begin anew: no server has them any more", ", ".join(lacking))
    made = Scope()
    program = server_startup(side, server.number)
    _run_once(program, made)
    for name in made.local_var_names():
        if scope.find_var(name) is None:
            scope.var(name).value = made.var(name).value
