"""One training thread of `train_from_dataset`: takes batches and runs its own plan."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from refluid.core import flags
from refluid.core.errors import EOFException
from refluid.core.offsets import Levels
from refluid.core.scope import Scope
from refluid.core.values import LoDTensor
from refluid.engine import listening
from refluid.engine.active_threads import ActiveThreads
from refluid.engine.attending import together
from refluid.engine.choices import overlaid
from refluid.engine.group import Group
from refluid.engine.operator_times import OperatorTimes
from refluid.engine.prepare import Prepared, Wanted, prepared
from refluid.engine.strategy import Strategy
from refluid.feed.staging import Sender
from refluid.feed.text_datasets.batches import Batch
from refluid.feed.text_datasets.feed import DatasetFeed
from refluid.ir.program import Program
from refluid.ops.comm.ahead import announce, lookups_ahead
from refluid.runtime.allocator import count_run
from refluid.runtime.plan import Fetched, Plan


@dataclass(frozen=True)
class Job:
    """What all threads of one run have in common.

    strategy, loss: of one that trains along with other processes. names: what a batch of the
    dataset has tensors for. shown: name and text of what is printed every `period` batches.
    watched: what a fetch handler looks at.
    """

    program: Program
    scope: Scope
    group: Group
    strategy: Strategy
    loss: str | None
    infer: bool
    names: Sequence[str]
    names_with_lod: frozenset[str]
    shown: Sequence[tuple[str, str]]
    watched: Sequence[str]
    period: int
    debug: bool


class Trainer:
    """Thread `number`. Parameters are the scope's own, so all threads share them (Hogwild).

    Only thread 0 fetches and prints. `rows` and `batches` count what was trained. plans: gives the
    plan back when it is closed. threads: how many there are; possible: how many could be.
    """

    def __init__(
        self, job: Job, number: int, plans: ExitStack, threads: int = 1, possible: int = 1
    ) -> None:
        self.job, self.number = job, number
        self._threads = threads, possible
        self.rows = self.batches = 0
        self.reading = self.computing = 0.0
        self.latest: dict[str, Fetched] = {}
        (device,), block = job.group.devices, job.program.global_block()
        self._fed = [place for place, name in enumerate(job.names) if name in block.vars]
        wanted = dict.fromkeys([name for name, _ in job.shown] + [*job.watched])
        self._fetched = () if number else tuple(wanted)
        names = self._names = tuple(job.names[place] for place in self._fed)
        with_lod = self._with_lod = job.names_with_lod & set(names)
        ready = self._ready = self._prepared(job.strategy)
        if job.debug:  # its operators are timed: it stays interpreted
            (self.plan,) = ready.plans(with_lod)
        else:
            self.plan = plans.enter_context(ready.plan(with_lod))
        for name in self.plan.written.state:
            if job.scope.find_var(name) is None:
                job.scope.var(name)
        ahead = flags.value("refluid_prefetch_rows")
        self._ahead = lookups_ahead(job.program, frozenset(names)) if ahead else []
        self._sender = Sender(device) if device.type == "cuda" else None
        self.times = OperatorTimes(self.plan) if job.debug else None
        # Of several threads: which of them take batches.
        self.active: ActiveThreads | None = None

    def run(self, feed: DatasetFeed, stopped: threading.Event) -> None:
        """Trains on batches until there are no more, or `stopped`."""
        while not stopped.is_set():
            if self.active is not None:
                self.active.wait(self.number)
            start = time.perf_counter()
            try:
                batch = feed.take(self.number)
            except EOFException:
                return
            taken = time.perf_counter()
            if self._ahead:
                self._announce(feed.peek())
            with self.times.measuring() if self.times else nullcontext():
                self._step(batch)
            self.reading += taken - start
            feed.done.add(batch.spans)
            if self.active is not None:
                self.active.note()
            self.computing += time.perf_counter() - taken
            self.rows += batch.rows
            self.batches += 1
            if self.job.shown and not self.number and self.batches % self.job.period == 0:
                self._print()

    def _announce(self, following: Batch | None) -> None:
        """Says what the next batch looks up on servers, if it is this one."""
        if following is not None:
            announce(self._ahead, dict(zip(self.job.names, following.tensors, strict=True)))

    def _step(self, batch: Batch) -> None:
        tensors = [batch.tensors[place] for place in self._fed]
        if self._sender is not None:
            tensors = self._sender.bring(tensors)
        lods = [batch.lods[place] for place in self._fed]
        heard = None if self.number or self.job.debug else listening.listener
        if heard is None:
            results = self._run(self._ready, self.plan, tensors, lods)
        else:
            values = map(LoDTensor, tensors, lods)
            feed = dict(zip(self._names, values, strict=True))
            call = listening.RunCall(
                self._as_asked, self.job.program, feed, list(self._fetched), self.job.scope, False,
                True, *self._threads,
            )  # fmt: skip
            results = list(map(_fetched, heard(call)))
        if self._fetched:
            self.latest = dict(zip(self._fetched, results, strict=True))

    def _run(
        self, ready: Prepared, plan: Plan, tensors: list[torch.Tensor], lods: list[Levels]
    ) -> list[Fetched]:
        scope = self.job.scope
        found = together(ready, [scope], lambda: plan.run(scope, tensors, lods), tensors)
        count_run()
        return found

    def _as_asked(self, _program: Any, feed: dict[str, LoDTensor], *_: Any) -> list[Any]:
        """A step by what is chosen now, for those who hear of steps and may run them again."""
        ready = self._prepared(overlaid(self.job.strategy))
        fed = feed.values()
        with ready.plan(self._with_lod) as plan:
            results = self._run(
                ready, plan, [one.tensor for one in fed], [one.levels for one in fed]
            )
        return [shown(one) for one in results]

    def _prepared(self, strategy: Strategy) -> Prepared:
        job = self.job
        wanted = Wanted(
            job.program, self._names, self._fetched, strategy, job.group, job.loss, job.infer
        )
        return prepared(wanted)

    @property
    def exchanges(self) -> bool:
        """Whether its steps exchange something with other trainers."""
        return self._ready.number > 0

    def active_of(self, threads: int) -> ActiveThreads | None:
        """Which of so many threads take batches, as it was found out so far; None where they might
        wait for one another within a step.
        """
        if self.job.debug or self._ready.acts_outside:
            return None
        found: ActiveThreads = self._ready.active.setdefault(threads, ActiveThreads(threads))
        return found

    def _print(self) -> None:
        for name, text in self.job.shown:
            print(f"{text}\nVariable: {name}\n{shown(self.latest[name])}", flush=True)

    def report(self) -> str:
        """Where the time went: per operator, and between reading and computing."""
        count, total = max(self.batches, 1), self.reading + self.computing
        lines = [
            f"thread {self.number}: {self.batches} batches, {self.rows} instances; read "
            f"{1000 * self.reading / count:.3f} ms, train {1000 * self.computing / count:.3f} ms "
            f"per batch; IO percent {100 * self.reading / total if total else 0:.1f}, "
            f"{self.rows / total if total else 0:.1f} instances/s"
        ]
        for kind, mean in self.times.means() if self.times else ():
            lines.append(f"  {kind:<32} mean time {mean:.4f} ms")
        return "\n".join(lines)


def _fetched(given: Any) -> Fetched:
    """What `shown` was given."""
    return Fetched(given.tensor, given.levels) if isinstance(given, LoDTensor) else Fetched(given)


def shown(fetched: Fetched) -> Any:
    """A fetched value as Fluid prints it: lod, dim, layout, dtype, data."""
    if isinstance(fetched.value, torch.Tensor):
        return LoDTensor(fetched.value, fetched.levels)
    return fetched.value
