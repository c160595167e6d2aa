"""Groups whose members are threads: those of `LocalGroup`, and `Processes` that meet over TCP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from refluid.comm import Communicator, LocalGroup
from refluid.comm.meeting import Address
from refluid.comm.processes import meet
from refluid.core.ports import free_port

PATIENCE = 30.0


def free_address() -> Address:
    return "127.0.0.1", free_port()


def together(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each returned or raised."""
    with ThreadPoolExecutor(len(works)) as pool:
        futures = [pool.submit(work) for work in works]
        return [one.exception(300) or one.result() for one in futures]


def as_processes(
    size: int,
    work: Callable[[Communicator], Any],
    *,
    address: Address | None = None,
    patience: float = PATIENCE,
) -> list[Any]:
    """`work` of each of `size` members; what it returned or raised."""
    where = free_address() if address is None else address

    def member(rank: int) -> Any:
        comm = meet(rank, size, where, wait=60, patience=patience)
        try:
            return work(comm)
        finally:
            comm.close()

    return together([lambda rank=rank: member(rank) for rank in range(size)])  # type: ignore[misc]


def as_threads(
    size: int, work: Callable[[Communicator], Any], *, patience: float = PATIENCE
) -> list[Any]:
    """Likewise, in one process; a member that raises leaves the group, as one of `Replicas`."""
    group = LocalGroup(size, patience)

    def member(rank: int) -> Any:
        comm = group.member(rank)
        try:
            return work(comm)
        except BaseException:
            comm.close()
            raise

    try:
        return together([lambda rank=rank: member(rank) for rank in range(size)])  # type: ignore[misc]
    finally:
        group.close()
