"""A job on a cluster of Ray: it places the trainers on hosts, and begins anew what was lost."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refluid.collective.launch.logs import last_lines, log_file, server_log
from refluid.collective.launch.servers import ServerJob
from refluid.collective.launch.servers_live import live_servers
from refluid.core.errors import EnforceNotMet
from refluid.core.flags import whole_environment

_EVERY, _GRACE = 0.2, 15.0
# Settings of this process that those on other hosts find too.
_OURS = "REFLUID_"
_INTERRUPTED = 130
PLACEMENTS = ("spread", "packed")


@dataclass(frozen=True)
class RayJob:
    """size: how many trainers, beside so many servers of tables. placement: spread or packed.

    address: of a cluster that runs; None for one on this machine alone. seconds: how long to wait
    for room. gpus: of each trainer.
    """

    arguments: Sequence[str]
    size: int
    placement: str = "spread"
    address: str | None = None
    gpus: float = 0
    cpus: float = 1
    seconds: float = 300.0
    environment: tuple[tuple[str, str], ...] = ()
    servers: int = 0

    def __post_init__(self) -> None:
        if self.placement not in PLACEMENTS:
            raise EnforceNotMet(f"--placement is {' or '.join(PLACEMENTS)}, not {self.placement}")

    @property
    def processes(self) -> int:
        """All of them: trainers by their numbers, then servers."""
        return self.size + self.servers

    def name(self, number: int) -> str:
        """Of a process."""
        trainer = number < self.size
        return f"trainer {number}" if trainer else f"server {number - self.size}"

    def log(self, folder: Path, number: int) -> Path:
        """Where a process writes."""
        trainer = number < self.size
        return log_file(folder, number) if trainer else server_log(folder, number - self.size)

    def told(self, endpoints: Sequence[str], number: int, attempt: int) -> dict[str, str]:
        """What a process finds in its environment, given where each is."""
        settings = {
            name: value for name, value in whole_environment().items() if name.startswith(_OURS)
        }
        if not self.servers:
            return settings | _environment(number, endpoints, attempt) | dict(self.environment)
        parts = ServerJob(tuple(endpoints[self.size :]), tuple(endpoints[: self.size]))
        again = {"TORCHELASTIC_RESTART_COUNT": str(attempt)}
        found = parts.environment(endpoints[number])
        return settings | found | again | dict(self.environment)


def run_on_ray(job: RayJob, folder: Path, max_restarts: int = 0, out: Any = None) -> int:
    """Runs `refluid run` with the job's arguments as each trainer; the exit status.

    folder: where each process's log is written; the first trainer's is shown. Where a trainer fails
    or a host is lost, all end, and begin again in new places where restarts are left. Beside
    servers a process that fails is started again in its place.
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
    group = _placed(ray, job)
    workers: list[Any] = []
    try:
        workers = _workers(ray, job, group)
        places = ray.get([one.place.remote() for one in workers], timeout=job.seconds)
        order = sorted(range(job.size), key=lambda one: (places[one][0], one))
        order += range(job.size, job.processes)
        workers = [workers[one] for one in order]
        endpoints = [f"{places[one][0]}:{places[one][1]}" for one in order]

        def start(rank: int) -> None:
            told = job.told(endpoints, rank, attempt)
            workers[rank].start.remote(list(job.arguments), told)

        for rank in range(job.processes):
            start(rank)
        served = endpoints[job.size :]
        with live_servers(served) if served else nullcontext():
            return _watched(ray, workers, folder, out, _Again(job, start, restarts))
    finally:
        _end(ray, workers, group)


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


def _workers(ray: Any, job: RayJob, group: Any) -> list[Any]:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    from refluid.collective.launch.ray_worker import RayWorker

    actor = ray.remote(RayWorker)
    return [
        actor.options(
            num_cpus=job.cpus,
            num_gpus=job.gpus,
            max_restarts=0,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, bundle),
        ).remote()
        for bundle in range(job.processes)
    ]


def _environment(rank: int, endpoints: Sequence[str], attempt: int) -> dict[str, str]:
    return {
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_CURRENT_ENDPOINT": endpoints[rank],
        "PADDLE_TRAINERS_NUM": str(len(endpoints)),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
    }


@dataclass
class _Again:
    """Starts processes of a job again in their places, as long as restarts are left."""

    job: RayJob
    start: Callable[[int], None]
    left: int

    def tried(self, rank: int, how: str) -> bool:
        """Whether it was started again."""
        if not self.left:
            return False
        self.left -= 1
        print(f"{self.job.name(rank)} {how} and is started again", file=sys.stderr)
        self.start(rank)
        return True


def _watched(
    ray: Any, workers: Sequence[Any], folder: Path, out: Any, again: _Again
) -> Failed | None:
    """Copies logs until all have ended, or one has failed. Servers may end a while later."""
    running, job, until = dict(enumerate(workers)), again.job, 0.0
    while running:
        time.sleep(_EVERY)
        if min(running) >= job.size:
            until = until or time.monotonic() + _GRACE
            if time.monotonic() > until:
                return None
        for rank, one in list(running.items()):
            status, text = _asked(ray, one)
            with job.log(folder, rank).open("a", encoding="utf-8") as log:
                log.write(text)
            if rank == 0 and text:
                out.write(text)
                out.flush()
            if status == 0:
                del running[rank]
            elif status == _LOST or (status is not None and not again.tried(rank, _how(status))):
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
