"""One server more for a job with servers that runs, started and watched on this host."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from refluid.collective.launch.logs import last_lines, shown
from refluid.collective.launch.servers import ServerJob
from refluid.core.flags import whole_environment
from refluid.pserver.layout import JobLayout
from refluid.pserver.lookout import present_layout

_RUN = ("-u", "-m", "refluid.cli.main", "run")
_JOINS = "REFLUID_SERVER_JOINS"
_LOOK, _FINDS, _GRACE, _INTERRUPTED = 0.1, 30.0, 10.0, 130


def run_joining(
    arguments: Sequence[str], at: str, address: str, folder: Path, max_restarts: int = 0
) -> int:
    """Runs `refluid run` with the job's arguments as a server more at an address; the exit status.

    at: one of the servers that are there. It ends with the job, or when it is removed; where it
    fails it is started again, up to `max_restarts` times.
    """
    job = joined_job(present_layout([at], _FINDS), at)
    environment = job.environment(job.servers[0]) | {_JOINS: address}
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"serverlog.{address.replace(':', '_')}"
    log.unlink(missing_ok=True)
    process: subprocess.Popen[bytes] | None = None
    try:
        with shown(log):
            for restarts in range(max_restarts + 1):
                with log.open("ab") as file:
                    process = subprocess.Popen(
                        [sys.executable, *_RUN, *arguments],
                        env=whole_environment() | environment,
                        stdout=file,
                        stderr=file,
                    )
                while process.poll() is None:
                    time.sleep(_LOOK)
                if not process.returncode:
                    return 0
                if restarts < max_restarts:
                    print(f"server {address} ended ({process.returncode}) and is started again")
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        if process is not None and process.poll() is None:
            process.terminate()
            process.wait(_GRACE)
    assert process is not None
    print(f"server {address} failed. Its log is {log}. Its last lines:", file=sys.stderr)
    print(last_lines(log), end="", file=sys.stderr)
    return 1


def joined_job(layout: JobLayout, at: str) -> ServerJob:
    """The job as its scripts are to see it: with as many servers as it had first.

    In the places of those that are gone stand others, whose addresses serve as well to ask.
    """
    there = [layout.servers[number] for number in layout.numbers]
    founders = layout.servers[: layout.founders or len(layout.servers)]
    others = [one for one in [at, *there] if one not in founders]
    known = []
    for number, one in enumerate(founders):
        known.append(one or (others.pop(0) if others else f"gone-{number}:1"))
        others = [other for other in others if other not in known]
    workers = tuple(f"worker-{number}:1" for number in range(layout.trainers))
    return ServerJob(tuple(known), workers)
