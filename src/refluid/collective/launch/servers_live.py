"""The live line of a job with servers: what trainers tell them, and what they hold."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TextIO

from rich.filesize import decimal

from refluid.collective.launch.live import live_line
from refluid.core.errors import EnforceNotMet
from refluid.pserver.figures import NO_FIGURES, TrainerFigures

_LOOK, _PATIENCE, _RECENT, _PLAIN = 1.0, 2.0, 12.0, 10.0


@dataclass(frozen=True)
class JobFigures:
    """What all servers of a job say at a moment. figures: of trainers, by number."""

    figures: Mapping[int, TrainerFigures]
    servers: int = 0
    rows: int = 0
    nbytes: int = 0


def job_figures(states: Sequence[Mapping[str, Any]]) -> JobFigures:
    """The figures in the answers of all servers; of a trainer the latest."""
    figures: dict[int, TrainerFigures] = {}
    for state in states:
        for number, told in state["figures"].items():
            one = TrainerFigures(*told)
            figures[int(number)] = max(one, figures.get(int(number), NO_FIGURES))
    rows, nbytes = (sum(sum(one[what].values()) for one in states) for what in ("rows", "bytes"))
    return JobFigures(figures, len(states), rows, nbytes)


def servers_line(now: JobFigures, then: JobFigures) -> str:
    """`3,100 samples/s of 2 trainers, pull 2.1 ms, push 3.4 ms, ..`: between two moments.

    Empty where no trainer has made a step. Of trainers that made none meanwhile all they did
    counts.
    """
    speed, behind, waiting = 0.0, 0.0, 0.0
    pull, push = [0.0, 0.0], [0.0, 0.0]
    for number, one in now.figures.items():
        before = then.figures.get(number, NO_FIGURES)
        if before.steps >= one.steps:  # nothing new, or it has begun again
            before = NO_FIGURES
        seconds = one.seconds - before.seconds
        speed += (one.rows - before.rows) / seconds if seconds > 0 else 0.0
        for sums, calls, spent in (
            (pull, one.pulls - before.pulls, one.pull_seconds - before.pull_seconds),
            (push, one.pushes - before.pushes, one.push_seconds - before.push_seconds),
        ):
            sums[0] += spent
            sums[1] += calls
        behind, waiting = max(behind, one.behind), waiting + one.waiting
    if not any(one.steps for one in now.figures.values()):
        return ""
    return ", ".join(
        [
            f"{speed:,.0f} samples/s of {len(now.figures)} trainers",
            *(f"{name} {1e3 * sums[0] / sums[1]:.3g} ms" for name, sums in _named(pull, push)),
            f"{waiting:.0f} steps wait",
            f"parameters are up to {behind:.0f} steps behind",
            f"{now.rows:,} rows, {decimal(now.nbytes)} on {now.servers} servers",
        ]
    )


def _named(pull: list[float], push: list[float]) -> list[tuple[str, list[float]]]:
    return [(name, sums) for name, sums in (("pull", pull), ("push", push)) if sums[1]]


class _ServersWatched:
    """Asks the servers in the background, and gives the line about the last seconds."""

    def __init__(self, servers: Sequence[str]) -> None:
        self._servers = servers
        self._seen: deque[tuple[float, JobFigures]] = deque([(0.0, JobFigures({}))])
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __call__(self) -> str:
        return servers_line(self._seen[-1][1], self._seen[0][1])

    def __enter__(self) -> _ServersWatched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(2 * _PATIENCE)

    def _look(self) -> None:
        from refluid.pserver.reading import TableReader  # with torch: processes begin meanwhile

        while not self._ended.wait(_LOOK):
            with suppress(EnforceNotMet), TableReader(list(self._servers), _PATIENCE) as reader:
                while not self._ended.wait(_LOOK):
                    self._keep(job_figures(reader.state()))

    def _keep(self, found: JobFigures) -> None:
        moment = time.monotonic()
        if found != self._seen[-1][1]:
            self._seen.append((moment, found))
        while len(self._seen) > 2 and moment - self._seen[1][0] > _RECENT:
            self._seen.popleft()


@contextmanager
def live_servers(
    servers: Sequence[str], out: TextIO | None = None, every: float = _PLAIN
) -> Iterator[None]:
    """Within the block a line says how the job of these servers does (`live_line`)."""
    with _ServersWatched(servers) as watch, live_line(watch, out, every):
        yield
