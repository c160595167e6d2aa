"""A job on a cluster of Ray: it places the trainers on hosts, and begins anew what was lost."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refluid.collective.launch.logs import last_lines, log_file
from refluid.core.errors import EnforceNotMet

_EVERY = 0.2
_INTERRUPTED = 130
PLACEMENTS = ("spread", "packed")


@dataclass(frozen=True)
class RayJob:
    """size: how many trainers. placement: spread over hosts, or packed into few.

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

    def __post_init__(self) -> None:
        if self.placement not in PLACEMENTS:
            raise EnforceNotMet(f"--placement is {' or '.join(PLACEMENTS)}, not {self.placement}")


def run_on_ray(job: RayJob, folder: Path, max_restarts: int = 0, out: Any = None) -> int:
    """Runs `refluid run` with the job's arguments as each trainer; the exit status.

    folder: where each trainer's log is written; the first one's is shown. Where a trainer fails or
    its host is lost, all end, and begin again in new places where restarts are left.
    EnforceNotMet where Ray isn't installed, or the cluster has no room.
    """
    ray, mine = _ray(job.address)
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(job.size):
        log_file(folder, rank).unlink(missing_ok=True)
    try:
        for attempt in range(max_restarts + 1):
            failed = _attempt(ray, job, folder, attempt, out or sys.stdout)
            if failed is None:
                return 0
            rank, status, how = failed
            log = log_file(folder, rank)
            print(f"trainer {rank} {how}; the others were ended. Its log is {log}", file=sys.stderr)
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


def _attempt(ray: Any, job: RayJob, folder: Path, attempt: int, out: Any) -> Failed | None:
    """One run of all trainers: None where all ended well, else who failed first, and how."""
    group = _placed(ray, job)
    workers: list[Any] = []
    try:
        workers = _workers(ray, job, group)
        places = ray.get([one.place.remote() for one in workers], timeout=job.seconds)
        order = sorted(range(job.size), key=lambda one: (places[one][0], one))
        workers = [workers[one] for one in order]
        endpoints = [f"{places[one][0]}:{places[one][1]}" for one in order]
        for rank, one in enumerate(workers):
            told = _environment(rank, endpoints, attempt) | dict(job.environment)
            one.start.remote(list(job.arguments), told)
        return _watched(ray, workers, folder, out)
    finally:
        _end(ray, workers, group)


def _placed(ray: Any, job: RayJob) -> Any:
    """Room for all trainers; EnforceNotMet where the cluster hasn't got it in time."""
    from ray.util import placement_group, remove_placement_group

    bundle = {"CPU": job.cpus, **({"GPU": job.gpus} if job.gpus else {})}
    kind = {"spread": "SPREAD", "packed": "PACK"}[job.placement]
    group = placement_group([bundle] * job.size, strategy=kind)
    ready, _ = ray.wait([group.ready()], timeout=job.seconds)
    if not ready:
        remove_placement_group(group)
        have = ray.cluster_resources()
        raise EnforceNotMet(
            f"the cluster has no room for {job.size} trainers with {bundle} each within "
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
        for bundle in range(job.size)
    ]


def _environment(rank: int, endpoints: Sequence[str], attempt: int) -> dict[str, str]:
    return {
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_CURRENT_ENDPOINT": endpoints[rank],
        "PADDLE_TRAINERS_NUM": str(len(endpoints)),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
    }


def _watched(ray: Any, workers: Sequence[Any], folder: Path, out: Any) -> Failed | None:
    """Copies logs until all have ended, or one has failed."""
    running = dict(enumerate(workers))
    while running:
        time.sleep(_EVERY)
        for rank, one in list(running.items()):
            status, text = _asked(ray, one)
            with log_file(folder, rank).open("a", encoding="utf-8") as log:
                log.write(text)
            if rank == 0 and text:
                out.write(text)
                out.flush()
            if status == 0:
                del running[rank]
            elif status is not None:
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
