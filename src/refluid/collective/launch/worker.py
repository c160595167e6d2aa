"""`python -m refluid.collective.launch.worker`: becomes one trainer of a job.

Started by torch's elastic agent. It sets Fluid's variables, writes to a log of its own, and turns
into `refluid run` with the arguments that it was given.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from refluid.collective.launch.cluster import Cluster
from refluid.collective.launch.logs import log_file
from refluid.core.flags import environment_int, environment_str, export

# What the launcher tells its workers.
CLUSTER = "REFLUID_LAUNCHED"
_RUN = ("-u", "-m", "refluid.cli.main", "run")
# Of Linux's prctl: the signal that a process gets when the one that started it ends.
_DEATH_SIGNAL = 1


def main() -> None:
    """Runs `sys.argv[1:]` as `refluid run` does, as the trainer that the environment says."""
    told: dict[str, Any] = json.loads(environment_str(CLUSTER) or "{}")
    folder = Path(told.pop("folder"))
    hosts, devices = tuple(told["hosts"]), tuple(told["devices"])
    cluster = Cluster(hosts, told["host"], told["port"], devices)
    environment = cluster.environment(environment_int("LOCAL_RANK", 0) or 0)
    for name, value in environment.items():
        export(name, value)
    end_with_parent()
    _write_to(log_file(folder, int(environment["PADDLE_TRAINER_ID"])))
    os.execv(sys.executable, [sys.executable, *_RUN, *sys.argv[1:]])


def end_with_parent() -> None:
    """Has this process get SIGTERM when the one that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGTERM)


def _write_to(log: Path) -> None:
    """Output and errors of this process and of what it turns into, behind those of earlier ones."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)


if __name__ == "__main__":
    main()
