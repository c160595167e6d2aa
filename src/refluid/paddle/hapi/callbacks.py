"""What is called while a `Model` trains, evaluates and predicts."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

from refluid.paddle.optimizer.lr import LRScheduler as Schedule

Logs = Mapping[str, Any] | None


class Callback:
    """Base of callbacks; each overrides the moments that it wants.

    `self.model` is the `Model`, `self.params` what it was called with: batch_size, epochs, steps,
    verbose and metrics. Setting `self.model.stop_training` ends training after the epoch.
    """

    def __init__(self) -> None:
        self.model: Any = None
        self.params: dict[str, Any] = {}

    def set_params(self, params: dict[str, Any]) -> None:
        """Says what the model was called with."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Says which model it is."""
        self.model = model

    def on_train_begin(self, logs: Logs = None) -> None:
        """Before training."""

    def on_train_end(self, logs: Logs = None) -> None:
        """After training."""

    def on_eval_begin(self, logs: Logs = None) -> None:
        """Before an evaluation. logs: its steps and metrics."""

    def on_eval_end(self, logs: Logs = None) -> None:
        """After an evaluation."""

    def on_predict_begin(self, logs: Logs = None) -> None:
        """Before predicting."""

    def on_predict_end(self, logs: Logs = None) -> None:
        """After predicting."""

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Before an epoch, counted from 0."""

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """After an epoch."""

    def on_train_batch_begin(self, step: int, logs: Logs = None) -> None:
        """Before a step of training, counted from 0."""

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None:
        """After one. logs: its loss, the metrics so far, step and batch_size."""

    def on_eval_batch_begin(self, step: int, logs: Logs = None) -> None:
        """Before a batch of an evaluation."""

    def on_eval_batch_end(self, step: int, logs: Logs = None) -> None:
        """After one."""

    def on_predict_batch_begin(self, step: int, logs: Logs = None) -> None:
        """Before a batch that is predicted."""

    def on_predict_batch_end(self, step: int, logs: Logs = None) -> None:
        """After one."""


class CallbackList:
    """Callbacks that are called one after the other."""

    def __init__(self, callbacks: Iterable[Callback], model: Any, params: dict[str, Any]) -> None:
        self._callbacks = list(callbacks)
        for one in self._callbacks:
            one.set_model(model)
            one.set_params(params)

    def call(self, moment: str, *given: Any) -> None:
        """Calls the method of this name of all."""
        for one in self._callbacks:
            getattr(one, moment)(*given)

    def has(self, kind: type) -> bool:
        """Whether one is of this class."""
        return any(isinstance(one, kind) for one in self._callbacks)


class ModelCheckpoint(Callback):
    """Saves the model to `save_dir` after every `save_freq` epochs, and at the end as `final`."""

    def __init__(self, save_freq: int = 1, save_dir: str | None = None) -> None:
        super().__init__()
        self.save_freq, self.save_dir = save_freq, save_dir

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Saves it as the epoch's number, where it is the turn of it."""
        if epoch % self.save_freq == 0:
            self._save(str(epoch))

    def on_train_end(self, logs: Logs = None) -> None:
        """Saves it as `final`."""
        self._save("final")

    def _save(self, name: str) -> None:
        if self.model is None or not self.save_dir or not self.model.writes:
            return
        path = f"{self.save_dir}/{name}"
        print(f"save checkpoint at {path}")
        self.model.save(path)


class LRScheduler(Callback):
    """Moves the optimizer's schedule on, after each step or after each epoch."""

    def __init__(self, by_step: bool = True, by_epoch: bool = False) -> None:
        super().__init__()
        if by_step and by_epoch:
            raise ValueError("by_step option is mutually exclusive with by_epoch")
        self.by_step, self.by_epoch = by_step, by_epoch

    def _step(self) -> None:
        schedule = getattr(getattr(self.model, "_optimizer", None), "_learning_rate", None)
        if isinstance(schedule, Schedule):
            schedule.step()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Moves on, with by_epoch."""
        if self.by_epoch:
            self._step()

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None:
        """Moves on, with by_step."""
        if self.by_step:
            self._step()


class VisualDL(Callback):
    """Writes losses and metrics for the panel of VisualDL, which must be installed."""

    def __init__(self, log_dir: str) -> None:
        super().__init__()
        self.log_dir = log_dir
        self._writer: Any = None
        self._counts: dict[str, int] = {"train": 0, "eval": 0}

    def on_train_begin(self, logs: Logs = None) -> None:
        """Opens the log. ImportError without VisualDL."""
        try:
            writer: Any = importlib.import_module("visualdl").LogWriter
        except ImportError as error:
            raise ImportError(
                "paddle.callbacks.VisualDL needs the package visualdl: pip install visualdl, or "
                "leave the callback out"
            ) from error
        self._writer = writer(self.log_dir)

    def _write(self, mode: str, logs: Logs) -> None:
        self._counts[mode] += 1
        for name in self.params.get("metrics", ()):
            value = (logs or {}).get(name)
            if self._writer is not None and value is not None:
                first = value[0] if isinstance(value, list) else value
                self._writer.add_scalar(f"{mode}/{name}", self._counts[mode], first)

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None:
        """Writes those of the step."""
        self._write("train", logs)

    def on_eval_end(self, logs: Logs = None) -> None:
        """Writes those of the evaluation."""
        self._write("eval", logs)

    def on_train_end(self, logs: Logs = None) -> None:
        """Closes the log."""
        if self._writer is not None:
            self._writer.close()


class WandbCallback(Callback):
    """Weights & Biases: refused, since nothing is sent anywhere from here."""

    def __init__(
        self,
        project: str | None = None,
        entity: str | None = None,
        name: str | None = None,
        dir: str | None = None,
        mode: str | None = None,
        job_type: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        raise ImportError(
            "refluid has no callback for Weights & Biases; write a paddle.callbacks.Callback whose "
            "on_train_batch_end hands its logs to wandb.log"
        )
