"""A job with servers on Ray's own cluster of several nodes on this machine; a program of its own.

    python -m tests.pserver.ray_servers FOLDER WHAT

WHAT: `ends`, `killed` (a server dies), `removed` (a node goes away, another comes). Prints the
status as JSON; logs are in FOLDER/log, what trainers told in FOLDER.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from refluid.collective.launch.on_ray import run_on_ray
from refluid.collective.launch.ray_job import RayJob

STEPS = 150
SCRIPT = """
import sys
sys.path[:0] = PATH
from benchmarks.counting import main
main()
"""


def main(folder: Path, what: str) -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    second = cluster.add_node(num_cpus=2)
    script = folder / "script.py"
    script.write_text(SCRIPT.replace("PATH", repr([one for one in sys.path if one])))
    environment = {
        "REFLUID_PLAIN_NETWORK": "1",
        "REFLUID_SERVER_CHECKPOINTS": str(folder / "kept"),
        "REFLUID_SERVER_LOG": "1",
        "FLAGS_worker_update_interval_secs": "4",
        "OMP_NUM_THREADS": "1",
    }
    said = [str(script), str(folder), "sync", "--steps", str(STEPS), "--pause", "0.03"]
    told = tuple(environment.items())
    job = RayJob(said, 2, "spread", cluster.address, seconds=90, environment=told, servers=2)
    ends: list[Any] = []
    running = threading.Thread(
        target=lambda: ends.append(run_on_ray(job, folder / "log", max_restarts=1))
    )
    running.start()
    if what != "ends":
        _until(lambda: _steps(folder) > 30)
        if what == "killed":
            _server().kill()
        else:
            cluster.remove_node(second, allow_graceful=False)
            cluster.add_node(num_cpus=2)
    running.join()
    print(json.dumps({"status": ends.pop()}), flush=True)
    cluster.shutdown()


def _steps(folder: Path) -> int:
    found = folder / "0.json"
    return int(json.loads(found.read_text())["steps"]) if found.is_file() else 0


def _server() -> psutil.Process:
    """One of the job's servers."""
    for process in psutil.Process().children(recursive=True):
        try:
            if "run" in process.cmdline() and process.environ().get("TRAINING_ROLE") == "PSERVER":
                return process
        except psutil.Error:
            continue
    raise AssertionError("there is no server")


def _until(true: Any) -> None:
    until = time.monotonic() + 120
    while not true() and time.monotonic() < until:
        time.sleep(0.1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
