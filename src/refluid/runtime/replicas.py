"""Replicas: the same program in several threads at once, each with its own plan and scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from refluid.comm import LocalGroup
from refluid.core.errors import PeerFailed
from refluid.core.threads import begin_thread, operator_threads
from refluid.core.whole_threads import all_ended


class Replicas:
    """Threads 0..size-1, which stay for the next step.

    Each computes with its share of the process's threads. When one fails, the others are woken
    and the error of the one that failed first is raised; the replicas can be used again.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.group = LocalGroup(size)
        share = operator_threads(size)
        self._threads = [
            ThreadPoolExecutor(
                1,
                thread_name_prefix=f"refluid-replica-{rank}",
                initializer=begin_thread,
                initargs=(share,),
            )
            for rank in range(size)
        ]

    def run(self, work: Callable[[int], Any]) -> list[Any]:
        """`work(rank)` in every thread at once; the results by rank."""
        threads = self._threads
        futures = all_ended(
            lambda: [one.submit(self._guarded, work, rank) for rank, one in enumerate(threads)]
        )
        errors = [future.exception() for future in futures]
        failed = [error for error in errors if error is not None]
        if failed:
            self.group.reset()
            raise _first(failed)
        return [future.result() for future in futures]

    def _guarded(self, work: Callable[[int], Any], rank: int) -> Any:
        try:
            return work(rank)
        except BaseException:
            self.group.abort()
            raise

    def close(self) -> None:
        """Ends the threads."""
        for thread in self._threads:
            thread.shutdown(wait=False)
        self.group.close()


def _first(errors: Sequence[BaseException]) -> BaseException:
    """The error that made the others fail."""
    own = [error for error in errors if not isinstance(error, PeerFailed)]
    return (own or list(errors))[0]
