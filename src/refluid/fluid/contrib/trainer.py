"""`Trainer`: the training that Fluid 1.0's first guides are written with, kept for old scripts.

Two functions tell what is trained, events what is done meanwhile. Source of the semantics: the
guides of Fluid 0.14, whose `fluid.Trainer` is this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from refluid.core.job_variables import job_str
from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.fluid import compiler, io, optimizer, unique_name
from refluid.fluid.contrib.trainer_checkpoints import CheckpointConfig, ReachedStep
from refluid.fluid.data_feeder import DataFeeder
from refluid.fluid.executor import Executor, scope_guard
from refluid.fluid.framework import program_guard
from refluid.ir.program import Program
from refluid.ir.variable import Variable

__all__ = [
    "BeginEpochEvent",
    "BeginStepEvent",
    "CheckpointConfig",
    "EndEpochEvent",
    "EndStepEvent",
    "Trainer",
]

Reader = Callable[[], Iterable[Any]]
FeedOrder = Sequence[str] | Mapping[str, int] | None


@dataclass
class BeginEpochEvent:
    """Epoch `epoch`, counted from 0, begins."""

    epoch: int


@dataclass
class EndEpochEvent:
    """Epoch `epoch` has ended."""

    epoch: int


@dataclass
class BeginStepEvent:
    """A step begins; a handler that sets `fetch_metrics` to False spares its metrics."""

    epoch: int
    step: int
    fetch_metrics: bool = True


@dataclass
class EndStepEvent:
    """A step has ended. metrics: the values of what `train_func` returned, the loss first."""

    epoch: int
    step: int
    metrics: list[Any] = field(default_factory=list)


class Trainer:
    """Trains what `train_func` builds by the optimizer that `optimizer_func` makes.

    train_func: returns the mean loss, or a list that begins with it; the rest are metrics.
    param_path: a folder that `save_params` wrote, whose parameters it begins with.
    parallel: on all devices, each with its part of a batch. checkpoint_config: where checkpoints
    are kept; where there is one, training goes on after it. Raises TypeError for what is no
    optimizer, NotImplementedError where the environment speaks of parameter servers.
    """

    def __init__(
        self,
        train_func: Callable[[], Variable | Sequence[Variable]],
        optimizer_func: Callable[[], optimizer.Optimizer],
        param_path: str | None = None,
        place: Place | None = None,
        parallel: bool = False,
        checkpoint_config: CheckpointConfig | None = None,
    ) -> None:
        if job_str("PADDLE_PSERVER_IPS"):
            raise NotImplementedError(
                "refluid's Trainer trains without parameter servers (PADDLE_PSERVER_IPS is set); "
                "fluid.DistributeTranspiler and fleet train with them"
            )
        self.scope, self.startup_program, self.train_program = Scope(), Program(), Program()
        self.place, self.parallel, self.checkpoint_cfg = place, parallel, checkpoint_config
        self._stopped, self._start = False, ReachedStep(0, 0)
        with program_guard(self.train_program, self.startup_program), unique_name.guard():
            made = train_func()
            self.train_func_outputs = [made] if isinstance(made, Variable) else [*made]
            self.test_program = self.train_program.clone(for_test=True)
            self._optimizer(optimizer_func).minimize(self.train_func_outputs[0])
        self.exe = Executor(place)
        self._run: Any = self.train_program
        if parallel:
            loss = self.train_func_outputs[0].name
            self._run = compiler.CompiledProgram(self.train_program).with_data_parallel(loss)
        with self._entered():
            self.exe.run(self.startup_program)
            if param_path:
                io.load_params(self.exe, param_path, self.train_program)
            if checkpoint_config is not None:
                self._start = checkpoint_config.restored(self.exe, self.train_program)

    @staticmethod
    def _optimizer(given: Any) -> optimizer.Optimizer:
        """A guide gives the optimizer itself."""
        made = given if isinstance(given, optimizer.Optimizer) else given()
        if not isinstance(made, optimizer.Optimizer):
            raise TypeError(f"optimizer_func gives an Optimizer, not a {type(made).__name__}")
        return made

    def stop(self) -> None:
        """Ends the training after the present step; its epoch has no `EndEpochEvent` then."""
        self._stopped = True

    def train(
        self,
        num_epochs: int,
        event_handler: Callable[[Any], Any],
        reader: Reader | None = None,
        feed_order: FeedOrder = None,
    ) -> None:
        """Trains on the batches of `reader`, and tells `event_handler` of epochs and steps.

        feed_order: names of the inputs in the order of a row's values, or each one's place; None
        is the order in which they were made.
        """
        if reader is None:
            raise ValueError("Trainer.train takes the batches of a reader: give it one")
        start, self._start, self._stopped = self._start, ReachedStep(0, 0), False
        feeder = self._feeder(self.train_program, feed_order)
        with self._entered():
            for epoch in range(start.epoch, num_epochs):
                event_handler(BeginEpochEvent(epoch))
                first = start.step if epoch == start.epoch else 0
                for event in self._steps(epoch, first, reader, feeder):
                    event_handler(event)
                    if self._stopped and isinstance(event, EndStepEvent):
                        return
                event_handler(EndEpochEvent(epoch))

    def _steps(
        self, epoch: int, first: int, reader: Reader, feeder: DataFeeder
    ) -> Iterator[BeginStepEvent | EndStepEvent]:
        for step, rows in islice(enumerate(reader()), first, None):
            yield (begun := BeginStepEvent(epoch, step))
            fetched = self.train_func_outputs if begun.fetch_metrics else []
            metrics = self.exe.run(self._run, feed=feeder.feed(rows), fetch_list=fetched)
            if self.checkpoint_cfg is not None:
                self.checkpoint_cfg.save(self.exe, self.train_program, ReachedStep(epoch, step))
            yield EndStepEvent(epoch, step, metrics)

    def _feeder(self, program: Program, feed_order: FeedOrder) -> DataFeeder:
        block = program.global_block()
        if feed_order is None:
            feed_order = [var.name for var in block.vars.values() if var.is_data]
        elif isinstance(feed_order, Mapping):
            feed_order = sorted(feed_order, key=feed_order.__getitem__)
        return DataFeeder([block.var(name) for name in feed_order], self.exe.place, program)

    def test(self, reader: Reader, feed_order: FeedOrder = None) -> list[float]:
        """The mean over a reader's batches of each thing that `train_func` returned."""
        feeder, names = self._feeder(self.test_program, feed_order), self.train_func_outputs
        with self._entered():
            found = [
                self.exe.run(self.test_program, feed=feeder.feed(rows), fetch_list=names)
                for rows in reader()
            ]
        return [float(np.mean([np.mean(one) for one in each])) for each in zip(*found, strict=True)]

    def save_params(self, param_path: str | Path) -> None:
        """Saves the parameters into a folder, for `Inferencer` and `param_path`."""
        with self._entered():
            io.save_params(self.exe, param_path, self.train_program)

    def save_inference_model(
        self,
        param_path: str | Path,
        feeded_var_names: Sequence[str],
        target_var_indexes: Sequence[int],
    ) -> None:
        """Saves a model that computes these of what `train_func` returned, by their places."""
        targets = [self.train_func_outputs[place] for place in target_var_indexes]
        with self._entered():
            io.save_inference_model(
                param_path, [*feeded_var_names], targets, self.exe, self.train_program
            )

    @contextmanager
    def _entered(self) -> Iterator[None]:
        with program_guard(self.train_program, self.startup_program), scope_guard(self.scope):
            yield
