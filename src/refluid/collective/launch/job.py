"""From what a launcher is asked for to a job that has run."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from refluid.collective.launch.agent import run_job
from refluid.collective.launch.cluster import Cluster, require_free, table
from refluid.core.errors import EnforceNotMet
from refluid.core.ports import free_port

# Fluid's launcher begins there.
USUAL_PORT = 6170
_LOOPBACK = "127.0.0.1"


def launched(
    arguments: Sequence[str],
    *,
    hosts: Sequence[str],
    host: str | None,
    port: int | None,
    count: int | None,
    gpus: str | None,
    folder: Path,
    prints: bool = True,
    max_restarts: int = 0,
    options: Sequence[str] = (),
) -> int:
    """Runs a script and its arguments as the job's trainers on this host; the exit status.

    host: which of the hosts this is, None where its addresses say so. port: of the first trainer;
    None for any free one on a single host, else Fluid's 6170. count: processes on each host, None
    for one per device. gpus: devices, a process for each. options: of `refluid run`.
    EnforceNotMet where this can't be.
    """
    if not Path(arguments[0]).is_file():
        raise EnforceNotMet(f"no such script: {arguments[0]}")
    devices = _devices(count, gpus)
    names = [one.strip() for one in hosts if one.strip()]
    if port is None:
        port = free_port(len(devices) + 1) if len(names) == 1 else USUAL_PORT
    cluster = Cluster(tuple(names), host or _this_host(names), port, devices)
    require_free(cluster)
    if prints:
        print(table(cluster), flush=True)
    return run_job(cluster, [*options, *arguments], folder, max_restarts)


def launched_with_servers(
    arguments: Sequence[str],
    counts: tuple[int | None, int | None],
    lists: tuple[str | None, str | None],
    host: str | None,
    port: int | None,
    folder: Path,
    max_restarts: int = 0,
    hosts: Sequence[str] = (),
) -> int:
    """Runs `refluid run` with these arguments as servers of tables and workers; the exit status.

    lists: servers and workers as `host:port,..`, of which those on `host` are started; else as many
    as `counts` says on each of `hosts`, or on this one, from `port` on. Others as of `launched`.
    """
    from refluid.collective.launch.servers import ServerJob, addresses_of, run_with_servers

    (server_num, worker_num), (servers, workers) = counts, lists
    names = [one.strip() for one in hosts if one.strip()] or [_LOOPBACK]
    if len(names) > 1 or names != [_LOOPBACK]:
        host = host or _this_host(names)
        begin = port or USUAL_PORT
    else:
        begin = port or free_port((server_num or 1) + (worker_num or 1))
    where = addresses_of(servers, server_num or 1, begin, names)
    second = begin + (0 if servers else server_num or 1)
    job = ServerJob(where, addresses_of(workers, worker_num or 1, second, names), host)
    return run_with_servers(job, arguments, folder, max_restarts)


def _devices(count: int | None, gpus: str | None) -> tuple[str, ...]:
    """Of each process of this host; empty names where none is asked for."""
    named = [one.strip() for one in (gpus or "").split(",") if one.strip()]
    if count is not None and named and len(named) != count:
        raise EnforceNotMet(
            f"{count} processes are asked for with {len(named)} devices ({', '.join(named)}): "
            "give a device for each"
        )
    return tuple(named or [""] * (count or 1))


def _this_host(hosts: Sequence[str]) -> str:
    """The one of these that is an address of this machine."""
    if len(hosts) == 1:
        return hosts[0]
    for one in hosts:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((one, 0))
            except OSError:
                continue
            return one
    raise EnforceNotMet(
        f"none of the hosts {', '.join(hosts)} is this one: --node_ip says which it is"
    )
