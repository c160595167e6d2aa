"""`paddle.distributed.spawn`: a function in several processes."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from refluid.collective.launch.cluster import Cluster
from refluid.core.flags import export, load_environment
from refluid.core.places import cuda_places
from refluid.core.ports import free_port

__all__ = ["MultiprocessContext", "spawn"]

_HOST = "127.0.0.1"


class MultiprocessContext:
    """The processes that `spawn` has started."""

    def __init__(self, processes: Sequence[Any], queues: Sequence[Any]) -> None:
        self.processes, self._queues = list(processes), list(queues)

    def join(self, timeout: float | None = None) -> bool:
        """Waits for all, or for so many seconds; whether all have ended.

        Where one fails the others are ended, and a RuntimeError says what it raised.
        """
        while any(one.is_alive() for one in self.processes):
            failed = [one.exitcode for one in self.processes]
            if any(failed):
                break
            alive = [one.sentinel for one in self.processes if one.is_alive()]
            if alive and not multiprocessing.connection.wait(alive, timeout):
                return False
        for number, one in enumerate(self.processes):
            if one.exitcode not in (0, None):
                self._end()
                raise RuntimeError(self._said(number, one.exitcode))
        return True

    def _end(self) -> None:
        for one in self.processes:
            one.terminate()
            one.join()

    def _said(self, number: int, status: int) -> str:
        queue = self._queues[number]
        if not queue.empty():
            return f"process {number} of {len(self.processes)} failed:\n{queue.get()}"
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"process {number} of {len(self.processes)} {how}"


def spawn(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = -1,
    join: bool = True,
    daemon: bool = False,
    **options: Any,
) -> MultiprocessContext:
    """Calls `func(*args)` in processes of their own, each one trainer of a job.

    func: of a module's top level. nprocs: how many, -1 for one per GPU, or one. join: wait for
    all. options: start_method (`spawn`), gpus (`"0,1"`), started_port. RuntimeError where one
    fails; TypeError for another option.
    """
    known = {"start_method", "gpus", "started_port", "backend", "print_config", "ips"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise TypeError(f"spawn takes no option {', '.join(unknown)}")
    devices = _devices(nprocs, options.get("gpus"))
    port = options.get("started_port") or free_port(len(devices))
    cluster = Cluster((_HOST,), _HOST, int(port), devices)
    context: Any = multiprocessing.get_context(options.get("start_method", "spawn"))
    queues = [context.SimpleQueue() for _ in devices]
    processes = [
        context.Process(
            target=_run, args=(func, tuple(args), cluster.environment(rank), queue), daemon=daemon
        )
        for rank, queue in enumerate(queues)
    ]
    for process in processes:
        process.start()
    found = MultiprocessContext(processes, queues)
    if join:
        found.join()
    return found


def _devices(count: int, gpus: str | None) -> tuple[str, ...]:
    """Of each process; empty names where none is asked for."""
    named = [one.strip() for one in (gpus or "").split(",") if one.strip()]
    if count < 0:
        return tuple(named) or tuple(str(number) for number in range(_gpus())) or ("",)
    if named and len(named) != count:
        raise ValueError(f"{count} processes are asked for with {len(named)} gpus")
    return tuple(named or [""] * count)


def _gpus() -> int:
    import torch

    return len(cuda_places()) if torch.cuda.is_available() else 0


def _run(
    func: Callable[..., Any], args: tuple[Any, ...], environment: Mapping[str, str], queue: Any
) -> None:
    for name, value in environment.items():
        export(name, value)
    load_environment(environment)
    try:
        func(*args)
    except Exception:
        queue.put(traceback.format_exc())
        raise SystemExit(1) from None
