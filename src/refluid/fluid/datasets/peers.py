"""Where the trainers of a fleet meet to exchange rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from refluid.comm import Communicator
from refluid.comm.values import gather_values
from refluid.comm.world import world
from refluid.core.errors import EnforceNotMet
from refluid.core.flags import environment_str

_VARIABLE = "REFLUID_EXCHANGE_ENDPOINT"


@contextmanager
def all_trainers(fleet: Any, asked: str) -> Iterator[Communicator]:
    """Within the block this trainer is connected with all others of `fleet`.

    By the job's own group where this process has joined it, as trainers of collective fleets have.
    Raises PeerFailed where one doesn't come, EnforceNotMet where none knows where to meet.
    """
    known = world()
    if (known.rank, known.size) == (fleet.worker_index(), fleet.worker_num()):
        yield known
        return
    from refluid.comm.processes import meet

    comm = meet(fleet.worker_index(), fleet.worker_num(), _meeting_place(fleet, asked))
    try:
        yield comm
    finally:
        comm.close()


def _meeting_place(fleet: Any, asked: str) -> tuple[str, int]:
    """The environment's; else the port after those of all trainers, where number 0 is."""
    text = environment_str(_VARIABLE)
    if text is None:
        endpoints = _endpoints(fleet)
        if len(endpoints) != fleet.worker_num():
            raise EnforceNotMet(
                f"{asked}: the {fleet.worker_num()} trainers don't know where to meet: set "
                f"{_VARIABLE}=host:port to a free port of trainer 0's machine, the same for all"
            )
        host, _, port = endpoints[0].rpartition(":")
        own = [one.rpartition(":") for one in endpoints]
        taken = [int(other) for name, _, other in own if name == host and other.isdigit()]
        return host, max([*taken, int(port)]) + 1
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise EnforceNotMet(f"{_VARIABLE}={text!r} must be host:port")
    return host, int(port)


def _endpoints(fleet: Any) -> list[str]:
    """Of all trainers, where the fleet knows them."""
    known = getattr(fleet, "worker_endpoints", None)
    found = known() if known is not None else []
    return [one for one in found or [] if one.rpartition(":")[2].isdigit()]


def over_trainers(rows: int, fleet: Any) -> int:
    """The sum over all trainers of `fleet`; all must call it."""
    if fleet is None or fleet.worker_num() <= 1:
        return rows
    reduce = getattr(getattr(fleet, "_role_maker", None), "_all_reduce", None)
    if reduce is None:
        with all_trainers(fleet, "get_memory_data_size") as comm:
            return int(sum(gather_values(comm, rows)))
    found = np.array([rows], np.int64)
    total = np.zeros_like(found)
    reduce(found, total)
    return int(total[0])
