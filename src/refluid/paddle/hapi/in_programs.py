"""Steps of a `Model` that is programs: one each to train, evaluate and predict, on one scope."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from refluid.core.scope import global_scope
from refluid.ir.defaults import default_main_program, default_startup_program, program_guard
from refluid.ir.program import Program
from refluid.paddle.hapi.given import as_array, listed
from refluid.paddle.static.amp import decorate
from refluid.paddle.static.building import data
from refluid.paddle.static.executing import Executor
from refluid.paddle.static.models import save_inference_model
from refluid.passes.prune import prune


@dataclass
class ModeProgram:
    """A program with what it is fed and what it gives. computed: of each metric."""

    main: Program
    inputs: list[Any]
    labels: list[Any]
    outputs: list[Any]
    losses: list[Any]
    computed: list[list[Any]]

    def feed(self, inputs: Sequence[Any], labels: Sequence[Any]) -> dict[str, Any]:
        """What is fed, by name."""
        pairs = zip((*self.inputs, *self.labels), (*inputs, *labels), strict=True)
        return {var.name: as_array(value) for var, value in pairs}


class StepsInPrograms:
    """Trains, evaluates and predicts batches. amp: of `Model.prepare`, with its level."""

    def __init__(self, model: Any, amp: dict[str, Any]) -> None:
        self._model, self._amp = model, dict(amp)
        self._main, self._startup = default_main_program(), default_startup_program()
        self._executor = Executor()
        self._begin(self._startup)
        if model._optimizer is not None:
            _ = self._training

    def _begin(self, startup: Program) -> None:
        """Gives variables their first values, but those that have one."""
        scope = global_scope()
        made = {name for op in startup.global_block().ops for name in op.output_arg_names}
        found = {name: scope.find_var(name) for name in made}
        absent = [name for name, cell in found.items() if cell is None or cell.value is None]
        if absent:
            self._executor.run(prune(startup, absent))

    def _built(self, mode: str) -> ModeProgram:
        model, main, startup = self._model, self._main.clone(), Program()
        with program_guard(main, startup):
            inputs = [data(one.name, one.shape, one.dtype) for one in model._inputs]
            judged = mode != "test"
            labels = [data(one.name, one.shape, one.dtype) for one in model._labels if judged]
            (model.network.train if mode == "train" else model.network.eval)()
            outputs = listed(model.network(*inputs))
            losses = listed(model._loss(*outputs, *labels)) if judged and model._loss else []
            metrics = model._metrics if judged else []
            computed = [listed(one.compute(*outputs, *labels)) for one in metrics]
            if mode == "train":
                assert losses, "training needs a loss: give it to `model.prepare()`"
                total = losses[0]
                for one in losses[1:]:
                    total = total + one
                self._optimizer().minimize(total, startup)
        if model.processes == 1 or mode != "train":
            self._begin(startup)
        else:
            self._executor.run(startup)
        return ModeProgram(main, inputs, labels, outputs, losses, computed)

    def _optimizer(self) -> Any:
        """The optimizer with mixed precision, and over processes."""
        made, settings = self._model._optimizer, dict(self._amp)
        if settings.pop("level", "O0") != "O0":
            settings.pop("use_fp16_guard", None)
            made = decorate(made, **settings)
        if self._model.processes > 1:
            fleet: Any = importlib.import_module("refluid.paddle.distributed.fleet")

            fleet.init(is_collective=True)
            made = fleet.distributed_optimizer(made)
        return made

    @cached_property
    def _training(self) -> ModeProgram:
        return self._built("train")

    @cached_property
    def _judging(self) -> ModeProgram:
        return self._built("eval")

    @cached_property
    def _predicting(self) -> ModeProgram:
        return self._built("test")

    def train(self, inputs: Sequence[Any], labels: Sequence[Any], update: bool) -> Any:
        """One step: losses, and what the metrics say."""
        assert self._model._optimizer is not None, (
            "model not ready, please call `model.prepare()` first"
        )
        if not update:
            raise NotImplementedError(
                "a program updates in each run: give accumulate_grad_batches to a model that runs "
                "at once, or wrap the optimizer into fluid.optimizer.GradientMergeOptimizer"
            )
        return self._run(self._training, inputs, labels)

    def evaluate(self, inputs: Sequence[Any], labels: Sequence[Any]) -> Any:
        """Losses, and what the metrics say."""
        return self._run(self._judging, inputs, labels)

    def _run(self, mode: ModeProgram, inputs: Sequence[Any], labels: Sequence[Any]) -> Any:
        wanted = [*mode.losses, *(one for several in mode.computed for one in several)]
        found = self._executor.run(mode.main, mode.feed(inputs, labels), wanted)
        losses, rest = found[: len(mode.losses)], iter(found[len(mode.losses) :])
        said = [
            metric.update(*[next(rest) for _ in several])
            for metric, several in zip(self._model._metrics, mode.computed, strict=True)
        ]
        return losses, said

    def predict(self, inputs: Sequence[Any]) -> list[Any]:
        """The results as arrays."""
        mode = self._predicting
        return self._executor.run(mode.main, mode.feed(inputs, []), mode.outputs)

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Of the network and of the optimizer."""
        own = self._model.network.state_dict()
        names = {name: one.name for name, one in own.items()}
        return _values(names), {**self._rate(), **_values({one: one for one in self._kept()})}

    def _kept(self) -> list[str]:
        """The variables that the optimizer keeps for parameters."""
        optimizer = self._model._optimizer
        return [] if optimizer is None else [*_accumulators(optimizer)]

    def _rate(self) -> dict[str, Any]:
        optimizer = self._model._optimizer
        schedule = getattr(optimizer, "_learning_rate", None)
        state = getattr(schedule, "state_dict", None)
        return {} if state is None else {"LR_Scheduler": state()}

    def load(self, optimizer_state: dict[str, Any]) -> None:
        """Has the optimizer go on from a state."""
        self._model._optimizer.set_state_dict(optimizer_state)

    def save_for_inference(self, path: str) -> None:
        """Writes the program that predicts, with its parameters."""
        mode = self._predicting
        save_inference_model(path, mode.inputs, mode.outputs, self._executor, program=mode.main)


def _accumulators(optimizer: Any) -> set[str]:
    known = getattr(optimizer, "_accumulators", {})
    return {var.name for of_kind in known.values() for var in of_kind.values()}


def _values(names: dict[str, str]) -> dict[str, np.ndarray[Any, Any]]:
    """Values of the global scope."""
    scope, found = global_scope(), {}
    for label, name in names.items():
        cell = scope.find_var(name)
        if cell is not None and cell.value is not None:
            found[label] = np.array(cell.get_tensor())
    return found
