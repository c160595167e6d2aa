"""Learning rates that follow the epoch, or a measure taken after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from refluid.fluid.dygraph.parts.schedules import LearningRateDecay, number_of


class ReduceLROnPlateau(LearningRateDecay):
    """A rate times `decay_rate` when a measure has not become better for `patience` epochs.

    mode: `min` or `max` is better. threshold, threshold_mode: better by how much, as a share
    (`rel`) or by itself (`abs`). cooldown: epochs in which nothing counts after a fall. min_lr,
    eps: it doesn't fall below, nor by less.
    """

    def __init__(
        self,
        learning_rate: float,
        mode: str = "min",
        decay_rate: float = 0.1,
        patience: int = 10,
        verbose: bool = False,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        eps: float = 1e-8,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype=dtype)
        if mode.lower() not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if decay_rate >= 1.0:
            raise ValueError("new_lr = origin_lr * decay_rate and decay_rate should be < 1.0.")
        if threshold_mode.lower() not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        if not isinstance(learning_rate, float | int):
            raise TypeError(
                f"The type of 'learning_rate' must be 'float' or 'int', but received "
                f"{type(learning_rate)}."
            )
        self.mode, self.threshold_mode = mode.lower(), threshold_mode.lower()
        self.decay_rate, self.patience, self.verbose = decay_rate, patience, verbose
        self.threshold, self.cooldown = threshold, cooldown
        self.min_lr, self.eps = min_lr, eps
        self.learning_rate = learning_rate
        self.cooldown_counter = self.num_bad_epochs = self.epoch_num = 0
        self.best_loss: float | None = None

    def _state_keys(self) -> None:
        self.keys = [
            *("cooldown_counter", "best_loss", "num_bad_epochs", "epoch_num", "learning_rate")
        ]

    def _refluid_next(self) -> float:
        return number_of(self.learning_rate)

    def step(self, loss: Any) -> None:  # type: ignore[override]
        """An epoch is over, with this measure: a variable of shape (1,)."""
        now = number_of(loss)
        self.epoch_num += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        if self.best_loss is None or self._better(now, self.best_loss):
            self.best_loss, self.num_bad_epochs = now, 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            new = max(self.learning_rate * self.decay_rate, self.min_lr)
            if self.learning_rate - new > self.eps:
                self.learning_rate = new
                if self.verbose:
                    print(f"Epoch {self.epoch_num}: reducing learning rate to {new}.")

    def _better(self, now: float, best: float) -> bool:
        step = best * self.threshold if self.threshold_mode == "rel" else self.threshold
        return now < best - step if self.mode == "min" else now > best + step


class _LearningRateEpochDecay(LearningRateDecay):
    """Base of schedules by epochs, which `epoch` counts."""

    def __init__(self, learning_rate: float, dtype: Any = "float32") -> None:
        if not isinstance(learning_rate, float | int):
            raise TypeError(
                "The type of 'learning_rate' must be 'float, int', but received "
                f"{type(learning_rate)}."
            )
        if learning_rate < 0:
            raise ValueError(f"Invalid learning rate: {learning_rate}")
        super().__init__(dtype=dtype)
        self.base_lr = float(learning_rate)
        self.epoch_num = -1
        self.learning_rate = self.base_lr
        self.epoch()

    def _state_keys(self) -> None:
        self.keys = ["epoch_num", "learning_rate"]

    def _refluid_next(self) -> float:
        return self.learning_rate

    def epoch(self, epoch: int | None = None) -> None:
        """An epoch is over, or that of this number begins."""
        self.epoch_num = self.epoch_num + 1 if epoch is None else epoch
        self.learning_rate = self.get_lr()

    def get_lr(self) -> float:
        """The rate of epoch `epoch_num`."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr")


class StepDecay(_LearningRateEpochDecay):
    """Times `decay_rate` after each `step_size` epochs."""

    def __init__(self, learning_rate: float, step_size: int, decay_rate: float = 0.1) -> None:
        if not isinstance(step_size, int):
            raise TypeError(
                f"The type of 'step_size' must be 'int', but received {type(step_size)}."
            )
        if decay_rate >= 1.0:
            raise ValueError("decay_rate should be < 1.0.")
        self.step_size_, self.decay_rate = step_size, decay_rate
        super().__init__(learning_rate)

    def get_lr(self) -> float:
        """The rate of epoch `epoch_num`."""
        return float(self.base_lr * self.decay_rate ** (self.epoch_num // self.step_size_))


class MultiStepDecay(_LearningRateEpochDecay):
    """Times `decay_rate` at each of the epochs `milestones`."""

    def __init__(
        self, learning_rate: float, milestones: Sequence[int], decay_rate: float = 0.1
    ) -> None:
        if not isinstance(milestones, tuple | list):
            raise TypeError(
                "The type of 'milestones' in 'MultiStepDecay' must be 'tuple, list', but received "
                f"{type(milestones)}."
            )
        if list(milestones) != sorted(set(milestones)):
            raise ValueError("The elements of milestones must be incremented")
        if decay_rate >= 1.0:
            raise ValueError("decay_rate should be < 1.0.")
        self.milestones, self.decay_rate = milestones, decay_rate
        super().__init__(learning_rate)

    def get_lr(self) -> float:
        """The rate of epoch `epoch_num`."""
        passed = sum(self.epoch_num >= one for one in self.milestones)
        return float(self.base_lr * self.decay_rate**passed)


class LambdaDecay(_LearningRateEpochDecay):
    """Times what a function gives for the epoch."""

    def __init__(self, learning_rate: float, lr_lambda: Callable[[int], float]) -> None:
        if not callable(lr_lambda):
            raise TypeError(
                "The type of 'lr_lambda' in 'LambdaDecay' must be 'function', but received "
                f"{type(lr_lambda)}."
            )
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate)

    def get_lr(self) -> float:
        """The rate of epoch `epoch_num`."""
        return self.base_lr * self.lr_lambda(self.epoch_num)
