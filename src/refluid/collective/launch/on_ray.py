"""A job on a cluster of Ray: it places the trainers on hosts, and begins anew what was lost."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from refluid.collective.launch.logs import last_lines
from refluid.collective.launch.ray_job import RayJob
from refluid.collective.launch.servers_live import live_servers
from refluid.core.errors import EnforceNotMet

_EVERY, _GRACE = 0.2, 15.0
_INTERRUPTED = 130


def run_on_ray(job: RayJob, folder: Path, max_restarts: int = 0, out: Any = None) -> int:
    """Runs `refluid run` with the job's arguments as each trainer; the exit status.

    folder: where each process's log is written; the first trainer's is shown. Where a trainer fails
    or a host is lost, all end, and begin again in new places where restarts are left. Beside
    servers a process that fails is started again in its place, and what was on a lost host
    elsewhere: servers only where they keep checkpoints.
    EnforceNotMet where Ray isn't installed, or the cluster has no room.
    """
    ray, mine = _ray(job.address)
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(job.processes):
        job.log(folder, rank).unlink(missing_ok=True)
    try:
        for attempt in range(max_restarts + 1):
            restarts = max_restarts if job.servers else 0
            failed = _attempt(ray, job, folder, attempt, out or sys.stdout, restarts)
            if failed is None:
                return 0
            rank, status, how = failed
            log = job.log(folder, rank)
            print(
                f"{job.name(rank)} {how}; the others were ended. Its log is {log}", file=sys.stderr
            )
        if rank:  # the first one's was shown
            print(f"Its last lines:\n{last_lines(log)}", end="", file=sys.stderr)
        return status
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        if mine:
            ray.shutdown()


def _ray(address: str | None) -> tuple[Any, bool]:
    """The package, and whether it was connected here."""
    try:
        import ray
    except ImportError as error:
        raise EnforceNotMet("--on ray needs Ray: pip install 'refluid[ray]'") from error
    if ray.is_initialized():
        return ray, False
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except ConnectionError as error:
        raise EnforceNotMet(f"there is no cluster of Ray at {address}: {error}") from error
    return ray, True


Failed = tuple[int, int, str]


def _attempt(
    ray: Any, job: RayJob, folder: Path, attempt: int, out: Any, restarts: int
) -> Failed | None:
    """One run of all: None where all ended well, else who failed first, and how."""
    run = _RayRun(ray, job, attempt, restarts)
    try:
        run.begin()
        with live_servers(run.served) if run.served else nullcontext():
            return _watched(run, folder, out)
    finally:
        _end(ray, run.workers, run.group)


class _RayRun:
    """The processes of a job and their places. Beside servers what dies begins again alone."""

    def __init__(self, ray: Any, job: RayJob, attempt: int, restarts: int) -> None:
        self.ray, self.job, self._attempt, self._left = ray, job, attempt, restarts
        self.group = _placed(ray, job)
        self.workers: list[Any] = []
        # By the numbers of processes: which bundle of the group, where, and on which node.
        self._bundles: list[int] = []
        self._endpoints: list[str] = []
        self._nodes: list[str] = []
        self._gone: set[str] = set()
        self.served: list[str] = []

    def begin(self) -> None:
        """Starts all."""
        ray, job = self.ray, self.job
        self.workers = [_worker(ray, job, self.group, one) for one in range(job.processes)]
        places = ray.get([one.place.remote() for one in self.workers], timeout=job.seconds)
        order = sorted(range(job.size), key=lambda one: (places[one][0], one))
        self._bundles = [*order, *range(job.size, job.processes)]
        self.workers = [self.workers[one] for one in self._bundles]
        self._endpoints = [f"{places[one][0]}:{places[one][1]}" for one in self._bundles]
        self._nodes = [places[one][2] for one in self._bundles]
        self._tell()
        for rank in range(job.processes):
            self._start(rank)

    def again(self, rank: int, status: int) -> bool:
        """Whether a process that ended so was started again: elsewhere, where its host is lost."""
        lost, job = status == _LOST, self.job
        counts = not lost or self._nodes[rank] not in self._gone  # a host counts once
        if self._left < counts or (lost and rank >= job.size and not job.keeps):
            return False
        self._left -= counts
        try:
            if lost:
                self._gone.add(self._nodes[rank])
                self._replace(rank)
            where = f" elsewhere, at {self._endpoints[rank]}" if lost else ""
            self._start(rank)
        except self.ray.exceptions.RayError as error:
            print(f"{job.name(rank)} found no other place: {error}", file=sys.stderr)
            return False
        print(f"{job.name(rank)} {_how(status)} and is started again{where}", file=sys.stderr)
        return True

    def _start(self, rank: int) -> None:
        told = self.job.told(self._endpoints, rank, self._attempt)
        self.workers[rank].start.remote(list(self.job.arguments), told)

    def _replace(self, rank: int) -> None:
        """Ray gives the bundle of a lost node to another one, once it knows that it is lost."""
        until = time.monotonic() + self.job.seconds
        while True:
            made = _worker(self.ray, self.job, self.group, self._bundles[rank])
            try:
                left = max(1.0, until - time.monotonic())
                host, port, node = self.ray.get(made.place.remote(), timeout=left)
                break
            except self.ray.exceptions.RayError:
                if time.monotonic() > until:
                    raise
            time.sleep(1.0)
        self.workers[rank] = made
        self._endpoints[rank], self._nodes[rank] = f"{host}:{port}", node
        self._tell()

    def _tell(self) -> None:
        self.served[:] = self._endpoints[self.job.size :]
        if self.served:
            for one in self.workers:
                _tried(one.tell.remote, self.served)


def _placed(ray: Any, job: RayJob) -> Any:
    """Room for all trainers; EnforceNotMet where the cluster hasn't got it in time."""
    from ray.util import placement_group, remove_placement_group

    bundle = {"CPU": job.cpus, **({"GPU": job.gpus} if job.gpus else {})}
    kind = {"spread": "SPREAD", "packed": "PACK"}[job.placement]
    group = placement_group([bundle] * job.processes, strategy=kind)
    ready, _ = ray.wait([group.ready()], timeout=job.seconds)
    if not ready:
        remove_placement_group(group)
        have, what = ray.cluster_resources(), "processes" if job.servers else "trainers"
        raise EnforceNotMet(
            f"the cluster has no room for {job.processes} {what} with {bundle} each within "
            f"{job.seconds:g} s: it has {have.get('CPU', 0):g} CPUs and {have.get('GPU', 0):g} GPUs"
        )
    return group


def _worker(ray: Any, job: RayJob, group: Any, bundle: int) -> Any:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    from refluid.collective.launch.ray_worker import RayWorker

    place = PlacementGroupSchedulingStrategy(group, bundle)
    options = {"num_cpus": job.cpus, "num_gpus": job.gpus, "max_restarts": 0}
    return ray.remote(RayWorker).options(**options, scheduling_strategy=place).remote()


def _watched(run: _RayRun, folder: Path, out: Any) -> Failed | None:
    """Copies logs until all have ended, or one has failed. Servers may end a while later."""
    job, left, until = run.job, set(range(run.job.processes)), 0.0
    while left:
        time.sleep(_EVERY)
        if min(left) >= job.size:
            until = until or time.monotonic() + _GRACE
            if time.monotonic() > until:
                return None
        for rank in sorted(left):
            status, text = _asked(run.ray, run.workers[rank])
            with job.log(folder, rank).open("a", encoding="utf-8") as log:
                log.write(text)
            if rank == 0 and text:
                out.write(text)
                out.flush()
            if status == 0:
                left.remove(rank)
            elif status is not None and not run.again(rank, status):
                return rank, status, _how(status)
    return None


def _asked(ray: Any, worker: Any) -> tuple[int | None, str]:
    """The status of a trainer that has ended, and what it has written since it was last asked."""
    try:
        found: tuple[int | None, str] = ray.get(worker.poll.remote())
        return found
    except ray.exceptions.RayError:
        return _LOST, ""


_LOST = 255


def _how(status: int) -> str:
    return "was lost with its host" if status == _LOST else f"ended with status {status}"


def _end(ray: Any, workers: Sequence[Any], group: Any) -> None:
    """Ends what still runs, and gives back its room."""
    from ray.util import remove_placement_group

    asked = [_tried(one.stop.remote) for one in workers]
    ray.wait([one for one in asked if one is not None], num_returns=len(asked), timeout=10)
    for one in workers:
        _tried(ray.kill, one)
    _tried(remove_placement_group, group)


def _tried(does: Callable[..., Any], *given: Any) -> Any:
    try:
        return does(*given)
    except Exception:  # what is lost needs no end
        return None
