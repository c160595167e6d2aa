"""The engine of `Executor.train_from_dataset`: reader threads, a queue, training threads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from refluid.core.bounds import MOST_THREADS
from refluid.core.data_ends import end_of_data, steps_together
from refluid.core.errors import EnforceNotMet
from refluid.core.fetched import fetched
from refluid.core.scope import Scope
from refluid.core.threads import begin_thread
from refluid.core.whole_threads import ended, interrupts_later, submitted
from refluid.engine.choices import chosen
from refluid.engine.dataset_progress import Progress
from refluid.engine.dataset_trainer import Job, Trainer
from refluid.engine.group import Group
from refluid.engine.knobs import KnobScope
from refluid.engine.monitor import Handler, Monitor
from refluid.engine.strategy import DEFAULT, Strategy
from refluid.feed.live import told
from refluid.feed.text_datasets.feed import DatasetFeed
from refluid.ir.program import Program
from refluid.ir.variable import Variable

_LOGGER = logging.getLogger("refluid")


class TrainingData(Protocol):
    """What a dataset is to training."""

    @property
    def names(self) -> Sequence[str]:
        """What its batches have tensors for."""

    @property
    def names_with_lod(self) -> frozenset[str]:
        """Those with LoD."""

    def usable_threads(self, wanted: int = 0) -> int:
        """How many threads can train on it."""

    def feed(self, consumers: int) -> DatasetFeed:
        """What reads, once it is started."""

    def finish_pass(self) -> None:
        """All was read."""


class Runs(NamedTuple):
    """A group, and for one that trains along with other processes its strategy and the loss."""

    group: Group
    strategy: Strategy = DEFAULT
    loss: str | None = None


def run_from_dataset(
    runs: Runs,
    infer: bool,
    program: Program,
    dataset: TrainingData,
    scope: Scope,
    thread: int,
    debug: bool,
    fetch_list: Sequence[Variable | str] | None,
    fetch_info: Sequence[str] | None,
    print_period: int,
    fetch_handler: Handler | None,
) -> None:
    """One pass over the dataset; arguments as of `Executor.train_from_dataset`.

    runs: by whom the program is run. infer: gradients, updates and learning-rate schedules are
    left out.
    """
    job = Job(
        program,
        scope,
        runs.group,
        runs.strategy,
        runs.loss,
        infer,
        dataset.names,
        dataset.names_with_lod,
        _shown(fetch_list, fetch_info),
        [] if fetch_handler is None else _names(list(fetch_handler.var_dict.values())),
        print_period,
        debug,
    )
    thread = chosen(KnobScope.DATASET).get("thread", thread)
    threads, begun = dataset.usable_threads(thread), steps_together()
    possible = dataset.usable_threads(MOST_THREADS)
    with ExitStack() as plans:
        trainers = [Trainer(job, number, plans, threads, possible) for number in range(threads)]
        if threads > 1 and trainers[0].exchanges:
            raise EnforceNotMet(
                f"{threads} threads of a trainer can't each exchange gradients with other "
                "trainers: train with thread=1, and more trainers"
            )
        feed = dataset.feed(threads)
        try:
            with told(Progress(feed, infer)):
                _run(trainers, feed, fetch_handler)
            end_of_data(begun)
        finally:
            feed.stop()
    dataset.finish_pass()


def _run(trainers: list[Trainer], feed: DatasetFeed, handler: Handler | None) -> None:
    monitor = None
    start = time.perf_counter()
    try:
        feed.start()
        if handler is not None:
            monitor = Monitor(handler, lambda: _watched(handler, trainers[0]))
            monitor.start()
        if len(trainers) == 1:
            trainers[0].run(feed, threading.Event())
        else:
            _run_threads(trainers, feed)
    except BaseException as error:
        error.add_note(f"{_done(trainers, start, feed)} before this; their updates were kept")
        raise
    finally:
        feed.stop()
        if monitor is not None:
            monitor.stop()
    _LOGGER.info("%s", _done(trainers, start, feed))
    if trainers[0].job.debug:
        print("\n".join(trainer.report() for trainer in trainers), flush=True)


def _run_threads(trainers: list[Trainer], feed: DatasetFeed) -> None:
    """Runs the trainers at the same time. The first error stops all of them, and is raised."""
    stopped, lock = threading.Event(), threading.Lock()
    errors: list[BaseException] = []
    active = trainers[0].active_of(len(trainers))
    for trainer in trainers:
        trainer.active = active
    share = max(1, torch.get_num_threads() // len(trainers))

    def work(trainer: Trainer) -> None:
        try:
            begin_thread(share)
            trainer.run(feed, stopped)
        except BaseException as error:
            with lock:
                if not stopped.is_set():
                    errors.append(error)
                    stopped.set()
            feed.interrupt()
        finally:
            if active is not None:
                active.end()

    # Not by joining threads: Python 3.11 takes one whose join was interrupted for one that ended.
    with ThreadPoolExecutor(len(trainers), thread_name_prefix="refluid trainer") as threads:
        try:
            if active is not None:
                active.begin()
            for one in [submitted(threads, work, trainer) for trainer in trainers]:
                ended(one)
        except BaseException:
            with interrupts_later():  # halfway the event would keep its lock
                stopped.set()
            feed.interrupt()
            raise
    if errors:
        raise errors[0]


def _done(trainers: list[Trainer], start: float, feed: DatasetFeed) -> str:
    rows, batches = sum(t.rows for t in trainers), sum(t.batches for t in trainers)
    read = "" if feed.share is None else f", {feed.share:.0%} of the {feed.unit} read"
    seconds = time.perf_counter() - start
    return (
        f"{rows} rows in {batches} batches were run ({rows / max(seconds, 1e-9):.0f} rows/s{read})"
    )


def _watched(handler: Handler, trainer: Trainer) -> dict[str, Any]:
    """The arrays that a fetch handler asks for, None for those that there aren't yet."""
    found: dict[str, Any] = {}
    for key, variable in handler.var_dict.items():
        latest = trainer.latest.get(_names([variable])[0])
        value = latest.value if latest else None
        held = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
        found[key] = None if held is None else fetched(np.array(held))
    return found


def _shown(fetch_list: Any, fetch_info: Sequence[str] | None) -> list[tuple[str, str]]:
    names = _names([] if fetch_list is None else fetch_list)
    texts = names if fetch_info is None else list(fetch_info)
    if len(texts) != len(names):
        raise ValueError(
            f"fetch_list and fetch_info must be of the same length: {len(names)} variables, but "
            f"{len(texts)} texts"
        )
    return list(zip(names, texts, strict=True))


def _names(variables: Any) -> list[str]:
    variables = [variables] if isinstance(variables, Variable | str) else variables
    return [one if isinstance(one, str) else one.name for one in variables]
