"""A job's processes on this host, kept by torch's elastic agent."""

from __future__ import annotations

import json
import logging
import sys
import uuid
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from refluid.collective.job import PROGRESS
from refluid.collective.launch.cluster import Cluster, require_first
from refluid.collective.launch.live import live
from refluid.collective.launch.logs import last_lines, log_file, missed, shown
from refluid.collective.launch.worker import CLUSTER
from refluid.core import flags
from refluid.core.errors import EnforceNotMet

_WORKER = "refluid.collective.launch.worker"
_NO_LAUNCHERS = (
    "the launcher of host {host} can't reach those of the other hosts, which meet at {meeting}, "
    "the first host's port after those of its trainers: {why}"
)
_INTERRUPTED = 130


def run_job(cluster: Cluster, arguments: Sequence[str], folder: Path, max_restarts: int = 0) -> int:
    """Runs `refluid run` with these arguments in all processes of this host; the exit status.

    folder: where each trainer's log is written; that of the job's first trainer is shown as it
    grows. A process that ends with an error ends the others, on all hosts; all begin again where
    restarts are left, else its last lines are shown.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ranks = range(cluster.number * cluster.per_host, (cluster.number + 1) * cluster.per_host)
    for rank in ranks:
        log_file(folder, rank).unlink(missing_ok=True)
    told = {**asdict(cluster), "folder": str(folder.resolve())}
    flags.export(CLUSTER, json.dumps(told))
    # With gloo, restarts wait forever on the agent's own store (pytorch issue 135712).
    flags.export("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    flags.export(PROGRESS, str(folder.resolve()))
    watched = live(folder, cluster.size) if ranks[0] == 0 else nullcontext()
    with watched, shown(log_file(folder, ranks[0])):
        failed = _run(cluster, arguments, folder, max_restarts)
    return report(failed, folder, ranks[0])


def _run(cluster: Cluster, arguments: Sequence[str], folder: Path, max_restarts: int) -> Any:
    """None, an exit status, or torch's error that names the processes which failed."""
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous.api import RendezvousError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    alone, wait = len(cluster.hosts) == 1, float(flags.value("refluid_meeting_seconds"))
    require_first(cluster, wait)
    config = LaunchConfig(
        min_nodes=len(cluster.hosts),
        max_nodes=len(cluster.hosts),
        nproc_per_node=cluster.per_host,
        run_id=str(uuid.uuid4()) if alone else "refluid",
        role="trainer",
        rdzv_backend="c10d" if alone else "static",
        rdzv_endpoint="127.0.0.1:0" if alone else cluster.meeting,
        rdzv_configs={"timeout": int(wait), **({} if alone else {"rank": cluster.number})},
        max_restarts=max_restarts,
        monitor_interval=0.1,
        logs_specs=DefaultLogsSpecs(log_dir=str(folder / "elastic")),
    )
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # it is told below
    try:
        elastic_launch(config, sys.executable)("-m", _WORKER, *arguments)
    except ChildFailedError as error:
        return error
    except KeyboardInterrupt:
        return _INTERRUPTED
    except SignalException as ended:
        return 128 + int(ended.sigval)
    except (RuntimeError, RendezvousError) as error:
        if alone:
            raise
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EnforceNotMet(
            _NO_LAUNCHERS.format(host=cluster.host, meeting=cluster.meeting, why=why)
        ) from error
    return None


def report(failed: Any, folder: Path, first: int) -> int:
    """Says what failed, with the last lines of it; the exit status."""
    if failed is None or isinstance(failed, int):
        return failed or 0
    rank, failure = failed.get_first_failure()
    code = int(failure.exitcode)
    how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
    log = log_file(folder, rank)
    print(f"trainer {rank} {how}; the others were ended. Its log is {log}", file=sys.stderr)
    if rank != first:  # whose log was shown
        print(f"Its last lines:\n{last_lines(log)}", end="", file=sys.stderr)
    other = missed(log)
    if other is not None and (lines := last_lines(log_file(folder, other))):
        print(f"It missed trainer {other}, whose last lines are:\n{lines}", end="", file=sys.stderr)
    return 128 - code if code < 0 else code
