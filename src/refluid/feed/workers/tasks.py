"""Worker processes that are given numbered tasks; results come back in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from refluid.feed.workers.channel import MessageKind, WorkerEnd
from refluid.feed.workers.crew import Cancelled, Crew
from refluid.feed.workers.process import Worker, WorkerFunction
from refluid.feed.workers.seeds import Seeds

# Tasks that a worker has at a time: one that it works on and one that waits.
_EACH = 2


def _performing(
    load: Callable[[Any], Any], begin: Callable[[], None], seeds: Seeds
) -> WorkerFunction:
    """Work that answers each order (number, task) with `load(task)`."""

    def work(end: WorkerEnd) -> None:
        begin()
        while True:
            number, task = end.receive()
            seeds.apply(number)
            end.send(MessageKind.ITEM, number, load(task))

    return work


class Tasks:
    """Gives `load(task)` of each task, in order, computed by several processes.

    Random numbers of a task follow from `seeds` and the task's number alone, whichever process
    performs it. begin: what each process (by number) runs first. timeout: seconds to wait for a
    result; None: for ever.
    """

    def __init__(
        self,
        title: str,
        load: Callable[[Any], Any],
        *,
        workers: int,
        seeds: Seeds,
        begin: Callable[[int], None],
        lend: int,
        timeout: float | None = None,
    ) -> None:
        def starting(number: int) -> Callable[[], None]:
            return lambda: begin(number)

        self._timeout = timeout
        works = [_performing(load, starting(number), seeds) for number in range(workers)]
        self.crew = Crew(title, works, lend)

    def results(self, tasks: Iterable[Any], first: int = 0) -> Iterator[Any]:
        """The results, in the order of the tasks, of which the first has the number `first`.

        The processes end with the iterator.
        """
        try:
            yield from self._results(iter(tasks), first)
        except Cancelled:
            return
        finally:
            self.crew.close()

    def _results(self, tasks: Iterator[Any], first: int) -> Iterator[Any]:
        busy: dict[Worker, int] = dict.fromkeys(self.crew.workers, 0)
        done: dict[int, Any] = {}
        given = wanted = first
        exhausted = False
        while True:
            while not exhausted and given - wanted < _EACH * len(busy):
                worker = min(busy, key=lambda one: busy[one])
                try:
                    task = next(tasks)
                except StopIteration:
                    exhausted = True
                    break
                worker.allow((given, task))
                busy[worker] += 1
                given += 1
            if exhausted and given == wanted:
                return
            while wanted not in done:
                worker, message = self.crew.receive(self._timeout)
                busy[worker] -= 1
                done[message.number] = message.value
            yield done.pop(wanted)
            wanted += 1
