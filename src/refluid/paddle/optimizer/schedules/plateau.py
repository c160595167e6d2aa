"""A rate that falls when a measure stops becoming better."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.paddle.optimizer.schedules.base import LRScheduler


class ReduceOnPlateau(LRScheduler):
    """A rate times `factor` when a measure has not become better for `patience` epochs.

    mode: `min` or `max` is better. threshold, threshold_mode: better by how much, as a share
    (`rel`) or by itself (`abs`). cooldown: epochs in which nothing counts after a fall. min_lr,
    epsilon: it doesn't fall below, nor by less.
    """

    def __init__(
        self,
        learning_rate: float,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        epsilon: float = 1e-8,
        verbose: bool = False,
    ) -> None:
        if mode.lower() not in ("min", "max"):
            raise ValueError("mode: " + mode + " is unknown!")
        if factor >= 1.0:
            raise ValueError("new_lr = origin_lr * gamma and gamma should be < 1.0.")
        if threshold_mode.lower() not in ("rel", "abs"):
            raise ValueError("threshold mode: " + threshold_mode + " is unknown!")
        if not isinstance(learning_rate, float | int):
            raise TypeError(
                "The type of 'learning_rate' in 'ReduceOnPlateau' must be 'float', but received "
                f"{type(learning_rate)}."
            )
        self.mode, self.threshold_mode = mode.lower(), threshold_mode.lower()
        self.factor, self.patience, self.threshold = factor, patience, threshold
        self.cooldown, self.min_lr, self.epsilon = cooldown, min_lr, epsilon
        self.cooldown_counter = self.num_bad_epochs = 0
        self.best: float | None = None
        self.base_lr = self.last_lr = float(learning_rate)
        self.last_epoch, self.verbose = 0, verbose
        self.keys = []

    def state_keys(self) -> None:
        self.keys = ["cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr"]

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """An epoch is over, with this measure: a number, or a variable or array of one element."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        now = float(metrics) if isinstance(metrics, float | int) else np.asarray(metrics).item()
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        if self.best is None or self._better(now, self.best):
            self.best, self.num_bad_epochs = now, 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            new = max(self.last_lr * self.factor, self.min_lr)
            if self.last_lr - new > self.epsilon:
                self.last_lr = new
                if self.verbose:
                    print(f"Epoch {self.last_epoch}: ReduceOnPlateau set learning rate to {new}.")

    def _better(self, now: float, best: float) -> bool:
        step = best * self.threshold if self.threshold_mode == "rel" else self.threshold
        return now < best - step if self.mode == "min" else now > best + step
