"""Callbacks that watch a loss or metric of evaluations."""

from __future__ import annotations

import os
import warnings
from typing import Any

from refluid.paddle.hapi.callbacks import Callback, Logs
from refluid.paddle.optimizer.lr import LRScheduler as Schedule

_MODES = ("auto", "min", "max")


class Monitor(Callback):
    """Tells which evaluations are better than all before by more than `min_delta`."""

    def __init__(self, monitor: str, mode: str, min_delta: float) -> None:
        super().__init__()
        if mode not in _MODES:
            kind = type(self).__name__
            warnings.warn(f"{kind} mode {mode} is unknown, fallback to auto mode.", stacklevel=3)
            mode = "auto"
        self.monitor, self.mode = monitor, mode
        self.rises = mode == "max" or (mode == "auto" and "acc" in monitor)
        self.min_delta = abs(min_delta)
        self.best_value = self.worst

    @property
    def worst(self) -> float:
        """What every value is better than."""
        return float("-inf") if self.rises else float("inf")

    def value_of(self, logs: Logs) -> float | None:
        """What is watched; None, with a warning, where the logs haven't got it."""
        found: Any = (logs or {}).get(self.monitor)
        if found is None:
            warnings.warn(
                f"Monitor of {type(self).__name__} should be loss or metric name.", stacklevel=3
            )
            return None
        return float(found[0] if isinstance(found, list | tuple) else found)

    def is_better(self, value: float) -> bool:
        """Whether a value is better than the best so far."""
        if self.rises:
            return value - self.min_delta > self.best_value
        return value + self.min_delta < self.best_value


class EarlyStopping(Monitor):
    """Ends training after `patience` evaluations that weren't better; keeps the best model.

    monitor: `loss`, or a metric. mode: whether it should be `min` or `max`; auto: max for what has
    "acc" in its name. baseline: what a value has to be better than. save_best_model: the best one
    is saved as `best_model` in fit's save_dir.
    """

    def __init__(
        self,
        monitor: str = "loss",
        mode: str = "auto",
        patience: int = 0,
        verbose: int = 1,
        min_delta: float = 0,
        baseline: float | None = None,
        save_best_model: bool = True,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self.patience, self.verbose, self.baseline = patience, verbose, baseline
        self.save_best_model = save_best_model
        self.save_dir: str | None = None
        self.wait_epoch = self.stopped_epoch = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        """Begins anew."""
        self.wait_epoch = 0
        self.best_value = self.worst if self.baseline is None else self.baseline

    def on_eval_end(self, logs: Logs = None) -> None:
        """Looks at an evaluation."""
        value = self.value_of(logs)
        if value is None:
            return
        if self.is_better(value):
            self.best_value, self.wait_epoch = value, 0
            if self.save_best_model and self.save_dir is not None and self.model.writes:
                self.model.save(os.path.join(self.save_dir, "best_model"))
        else:
            self.wait_epoch += 1
        if self.wait_epoch >= self.patience:
            self.model.stop_training = True
            if self.verbose > 0:
                print(f"Epoch {self.stopped_epoch + 1}: Early stopping.")
                if self.save_best_model and self.save_dir is not None:
                    path = os.path.abspath(os.path.join(self.save_dir, "best_model"))
                    print(f"Best checkpoint has been saved at {path}")
        self.stopped_epoch += 1


class ReduceLROnPlateau(Monitor):
    """Multiplies the learning rate by `factor` after `patience` evaluations that weren't better.

    cooldown: so many evaluations after it don't count. min_lr: it gets no lower.
    """

    def __init__(
        self,
        monitor: str = "loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 1,
        mode: str = "auto",
        min_delta: float = 0.0001,
        cooldown: int = 0,
        min_lr: float = 0,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("ReduceLROnPlateau does not support a factor >= 1.0.")
        super().__init__(monitor, mode, min_delta)
        self.factor, self.patience, self.verbose = factor, patience, verbose
        self.cooldown, self.min_lr = cooldown, min_lr
        self.epoch = self.cooldown_counter = self.wait = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        """Begins anew."""
        self.cooldown_counter = self.wait = 0
        self.best_value = self.worst

    def in_cooldown(self) -> bool:
        """Whether evaluations don't count."""
        return self.cooldown_counter > 0

    def on_eval_end(self, logs: Logs = None) -> None:
        """Looks at an evaluation."""
        value = self.value_of(logs)
        if value is None:
            return
        optimizer = self.model._optimizer
        if isinstance(getattr(optimizer, "_learning_rate", None), Schedule):
            warnings.warn(
                "Expected learning_rate be float, but it is a schedule: it stays as it is.",
                stacklevel=2,
            )
            return
        if self.in_cooldown():
            self.cooldown_counter -= 1
            self.wait = 0
        if self.is_better(value):
            self.best_value, self.wait = value, 0
        elif not self.in_cooldown():
            self.wait += 1
            if self.wait >= self.patience:
                self._reduce(optimizer)
        self.epoch += 1

    def _reduce(self, optimizer: Any) -> None:
        rate = optimizer.get_lr()
        if rate > self.min_lr:
            lower = max(rate * self.factor, self.min_lr)
            optimizer.set_lr(lower)
            if self.verbose > 0:
                turn = f"\nEpoch {self.epoch + 1}: ReduceLROnPlateau"
                print(f"{turn} reducing learning rate to {lower}.")
            self.cooldown_counter, self.wait = self.cooldown, 0
