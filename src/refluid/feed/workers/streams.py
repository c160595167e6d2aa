"""Worker processes that each iterate something, and one stream of all they give."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from refluid.feed.workers.channel import MessageKind, WorkerEnd
from refluid.feed.workers.crew import Cancelled, Crew
from refluid.feed.workers.process import Worker, WorkerFunction
from refluid.feed.workers.seeds import Seeds

Make = Callable[[], Iterable[Any]]


def _producing(make: Make, credit: int, seeds: Seeds, own: int) -> WorkerFunction:
    """Work that sends what `make()` gives, at most `credit` items ahead of what was taken.

    own: the number of the process.
    """

    def work(end: WorkerEnd) -> None:
        seeds.apply(own)
        left, number = credit, 0
        for item in make():
            while left == 0:
                left += end.receive()
            end.send(MessageKind.ITEM, number, item)
            left, number = left - 1, number + 1
        end.send(MessageKind.END, number, None)

    return work


class Stream:
    """Items of several iterables, each iterated in a process of its own.

    Their random numbers follow from those of this process, differently in each pass.
    ahead: items that each process may be ahead. rotate: one item of each process in turn, always
    in the same order; else as they come. lend: see `Crew`.
    """

    def __init__(
        self, title: str, makes: Sequence[Make], ahead: int, *, rotate: bool, lend: int = 0
    ) -> None:
        self._ahead = max(ahead, 1)
        self._rotate = rotate
        seeds = Seeds.draw()
        works = [_producing(make, self._ahead, seeds, own) for own, make in enumerate(makes)]
        self.crew = Crew(title, works, lend)

    def items(self) -> Iterator[Any]:
        """The items; the processes end with the iterator."""
        try:
            yield from self._in_rotation() if self._rotate else self._as_they_come()
        except Cancelled:
            return
        finally:
            self.crew.close()

    def _as_they_come(self) -> Iterator[Any]:
        taken: dict[Worker, int] = dict.fromkeys(self.crew.workers, 0)
        while self.crew.working:
            worker, message = self.crew.receive()
            if message.kind == MessageKind.ITEM:
                self._grant(worker, taken)
                yield message.value

    def _in_rotation(self) -> Iterator[Any]:
        taken: dict[Worker, int] = dict.fromkeys(self.crew.workers, 0)
        waiting: dict[Worker, deque[Any]] = {worker: deque() for worker in self.crew.workers}
        ended: set[Worker] = set()
        turn = deque(self.crew.workers)
        while turn:
            worker = turn[0]
            if waiting[worker]:
                turn.rotate(-1)
                self._grant(worker, taken)
                yield waiting[worker].popleft()
            elif worker in ended:
                turn.popleft()
            else:
                sender, message = self.crew.receive()
                if message.kind == MessageKind.ITEM:
                    waiting[sender].append(message.value)
                else:
                    ended.add(sender)

    def _grant(self, worker: Worker, taken: dict[Worker, int]) -> None:
        """Lets a worker go on; for several items at once, as each message costs both sides."""
        taken[worker] += 1
        if taken[worker] * 2 >= self._ahead:
            worker.allow(taken[worker])
            taken[worker] = 0
