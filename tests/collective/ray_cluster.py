"""A cluster of Ray on this machine, on which a job runs; a program of its own.

    python -m tests.collective.ray_cluster FOLDER WHAT

WHAT: `ends`, `fails` (the second trainer does), `removed` (its node goes away while it trains, and
another one comes), `full` (there is no room). Prints the status and how many trainers each node
had, and leaves the trainers' logs in FOLDER/log.
"""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from refluid.collective.launch.on_ray import run_on_ray
from refluid.collective.launch.ray_job import RayJob
from refluid.core.errors import EnforceNotMet

SCRIPT = """
import os, pathlib, sys, time
sys.path[:0] = PATH
import torch
from refluid.collective.job import job_of_environment, joined
rank, what = int(os.environ["PADDLE_TRAINER_ID"]), sys.argv[1]
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
print("trainer", rank, "of", os.environ["PADDLE_TRAINERS_NUM"], "attempt", attempt, flush=True)
group = joined(job_of_environment())
total = torch.tensor([float(rank + 1)])
group.all_reduce([total])
pathlib.Path(f"node-{rank}-{attempt}").write_text("there")
print("sum", int(total), flush=True)
if what == "fails" and rank == 1:
    raise SystemExit(3)
if what == "removed" and attempt == "0":
    for _ in range(600):
        time.sleep(0.1)
        group.barrier()
"""


def main(folder: Path, what: str) -> None:
    """Prints what happened as JSON."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=1)
    script = folder / "script.py"
    script.write_text(SCRIPT.replace("PATH", repr([one for one in sys.path if one])))
    size = 9 if what == "full" else 2
    job = RayJob([str(script), what], size, "spread", cluster.address, seconds=60)
    if what == "full":
        job = RayJob([str(script), what], size, "packed", cluster.address, seconds=3)
    out = io.StringIO()
    ends: list[Any] = []

    def run() -> None:
        try:
            restarts = int(what == "removed")
            ends.append(run_on_ray(job, folder / "log", max_restarts=restarts, out=out))
        except EnforceNotMet as error:
            ends.append(str(error))

    running = threading.Thread(target=run)  # nodes come in the main thread only
    running.start()
    if what == "removed":
        _remove(folder, cluster, second)
    running.join()
    status = ends.pop()
    print(json.dumps({"status": status, "said": out.getvalue()}), flush=True)
    cluster.shutdown()


def _remove(folder: Path, cluster: Any, node: Any) -> None:
    """Takes a node away as soon as both trainers train."""
    while len(list(folder.glob("node-*-0"))) < 2:
        time.sleep(0.1)
    cluster.remove_node(node, allow_graceful=False)
    cluster.add_node(num_cpus=1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
