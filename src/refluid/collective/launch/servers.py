"""A job with servers of tables: its processes on this host, started, watched and ended."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refluid.collective.launch.logs import last_lines, shown
from refluid.collective.launch.servers_live import live_servers
from refluid.core.errors import EnforceNotMet
from refluid.core.flags import whole_environment

_RUN = ("-u", "-m", "refluid.cli.main", "run")
_LOOK, _GRACE = 0.1, 10.0
_INTERRUPTED = 130


@dataclass(frozen=True)
class ServerJob:
    """Where servers and workers are (`host:port` each), and which of these hosts this one is.

    EnforceNotMet where there are none, or two have one address.
    """

    servers: tuple[str, ...]
    workers: tuple[str, ...]
    host: str | None = None

    def __post_init__(self) -> None:
        both = (*self.servers, *self.workers)
        if not self.servers or not self.workers:
            raise EnforceNotMet("a job with servers has at least one server and one worker")
        if len(set(both)) < len(both):
            raise EnforceNotMet(f"two processes have one address: {', '.join(sorted(both))}")
        if not all(one.rpartition(":")[2].isdigit() and ":" in one for one in both):
            raise EnforceNotMet(f"servers and workers are host:port: {', '.join(both)}")

    def here(self, address: str) -> bool:
        """Whether a process is started on this host."""
        return self.host is None or address.rpartition(":")[0] == self.host

    def environment(self, address: str) -> dict[str, str]:
        """What the process at an address finds, as Fluid's launcher sets it."""
        host, _, port = address.rpartition(":")
        found = {
            "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(self.servers),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(self.workers),
            "PADDLE_TRAINERS_NUM": str(len(self.workers)),
            "PADDLE_CURRENT_ENDPOINT": address,
            "POD_IP": host,
            "PADDLE_PORT": port,
        }
        if address in self.servers:
            return found | {"TRAINING_ROLE": "PSERVER"}
        number = str(self.workers.index(address))
        return found | {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": number}

    def name(self, address: str) -> str:
        """What its log is called."""
        if address in self.servers:
            return f"serverlog.{self.servers.index(address)}"
        return f"workerlog.{self.workers.index(address)}"


@dataclass
class _JobProcess:
    """One process. restarts: how often it was started again."""

    address: str
    log: Path
    process: Any = None
    restarts: int = 0


def run_with_servers(
    job: ServerJob, arguments: Sequence[str], folder: Path, max_restarts: int = 0
) -> int:
    """Runs `refluid run` with these arguments in all processes of this host; the exit status.

    The first worker's output is shown. A worker that fails ends the job; a server that fails is
    started again up to `max_restarts` times. Servers end when all workers did.
    """
    folder.mkdir(parents=True, exist_ok=True)
    addresses = [one for one in (*job.servers, *job.workers) if job.here(one)]
    if not addresses:
        raise EnforceNotMet(f"no server or worker is to be started on host {job.host}")
    started = [_JobProcess(one, folder / job.name(one)) for one in addresses]
    for one in started:
        one.log.unlink(missing_ok=True)
    first = next((one for one in started if one.address in job.workers), started[0])
    try:
        with _watched(job), shown(first.log):
            for one in started:
                _start(job, one, arguments)
            return _watch(job, started, arguments, max_restarts)
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        _end([one.process for one in started if one.process is not None])


def _watched(job: ServerJob) -> AbstractContextManager[None]:
    """A line of figures, where the first worker is on this host."""
    return live_servers(job.servers) if job.here(job.workers[0]) else nullcontext()


def _start(job: ServerJob, one: _JobProcess, arguments: Sequence[str]) -> None:
    environment = whole_environment() | job.environment(one.address)
    with one.log.open("ab") as log:
        one.process = subprocess.Popen(
            [sys.executable, *_RUN, *arguments], env=environment, stdout=log, stderr=log
        )


def _watch(
    job: ServerJob, started: list[_JobProcess], arguments: Sequence[str], max_restarts: int
) -> int:
    workers = [one for one in started if one.address in job.workers]
    servers = [one for one in started if one.address in job.servers]
    ended = 0.0
    while True:
        for one in (*workers, *servers):
            code = one.process.poll()
            if not code:
                continue
            if one in servers and one.restarts < max_restarts:
                one.restarts += 1
                print(f"{job.name(one.address)}: a server ended ({code}) and is started again")
                _start(job, one, arguments)
                continue
            return _failed(job, one, code)
        left = [one for one in (*workers, *servers) if one.process.poll() is None]
        if not left:
            return 0
        alone = len(workers) == len(job.workers)  # else others train with these servers
        if alone and not any(one in workers for one in left):
            ended = ended or time.monotonic()
            if time.monotonic() - ended > _GRACE:
                return 0
        time.sleep(_LOOK)


def _failed(job: ServerJob, one: _JobProcess, code: int) -> int:
    how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
    what = "server" if one.address in job.servers else "worker"
    print(
        f"{what} {one.address} {how}; the others were ended. Its log is {one.log}. Its last "
        f"lines:\n{last_lines(one.log)}",
        end="",
        file=sys.stderr,
    )
    return 128 - code if code < 0 else code


def _end(processes: Sequence[Any]) -> None:
    """Ends those that are left: asked first, killed after a while."""
    left = [one for one in processes if one.poll() is None]
    for one in left:
        one.terminate()
    until = time.monotonic() + _GRACE
    for one in left:
        try:
            one.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


def addresses_of(text: str | None, count: int, port: int, hosts: Sequence[str]) -> tuple[str, ...]:
    """Those in a list with commas, or so many of each host from a port on."""
    if text:
        return tuple(one.strip() for one in text.split(",") if one.strip())
    return tuple(f"{host}:{port + number}" for host in hosts for number in range(count))
