"""Rates that fall with the number of steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from refluid.paddle.optimizer.schedules.base import LRScheduler


class NoamDecay(LRScheduler):
    """learning_rate * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)."""

    def __init__(
        self,
        d_model: float,
        warmup_steps: int,
        learning_rate: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if d_model <= 0:
            raise ValueError("d_model should be grater than 0")
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `last_epoch`."""
        falling = 1 if self.last_epoch == 0 else self.last_epoch**-0.5
        rising = self.warmup_steps**-1.5 * self.last_epoch
        return float(self.base_lr * self.d_model**-0.5 * min(falling, rising))


class PiecewiseDecay(LRScheduler):
    """`values[i]` up to the step `boundaries[i]`, the last one afterwards."""

    def __init__(
        self,
        boundaries: Sequence[int],
        values: Sequence[float],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not boundaries:
            raise ValueError("The boundaries cannot be empty.")
        if len(values) <= len(boundaries):
            raise ValueError(
                f"The values have to be one more than boundaries, but received {len(values)} "
                f"values and {len(boundaries)} boundaries."
            )
        self.boundaries, self.values = boundaries, values
        super().__init__(last_epoch=last_epoch, verbose=verbose)

    def get_lr(self) -> float:
        """The rate of `last_epoch`."""
        for boundary, value in zip(self.boundaries, self.values, strict=False):
            if self.last_epoch < boundary:
                return value
        return self.values[len(self.values) - 1]


class _WithGamma(LRScheduler):
    def __init__(
        self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)


class NaturalExpDecay(_WithGamma):
    """learning_rate * e^(-gamma * epoch)."""

    def get_lr(self) -> float:
        """The rate of `last_epoch`."""
        return self.base_lr * math.exp(-1 * self.gamma * self.last_epoch)


class InverseTimeDecay(_WithGamma):
    """learning_rate / (1 + gamma * epoch)."""

    def get_lr(self) -> float:
        """The rate of `last_epoch`."""
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class ExponentialDecay(_WithGamma):
    """learning_rate * gamma^epoch."""

    def get_lr(self) -> float:
        """The rate of `last_epoch`."""
        return float(self.base_lr * self.gamma**self.last_epoch)


class PolynomialDecay(LRScheduler):
    """From learning_rate to end_lr in decay_steps steps, by a power; over and over if `cycle`."""

    def __init__(
        self,
        learning_rate: float,
        decay_steps: int,
        end_lr: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        assert decay_steps > 0 and isinstance(decay_steps, int), (
            " 'decay_steps' must be a positive integer."
        )
        assert power > 0.0, " 'power' must be greater than 0.0 will lead to decay."
        self.decay_steps, self.end_lr, self.power, self.cycle = decay_steps, end_lr, power, cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `last_epoch`."""
        steps, now = self.decay_steps, self.last_epoch
        if self.cycle:
            steps *= max(1, math.ceil(now / steps))
        else:
            now = min(now, steps)
        left = (1 - now / steps) ** self.power
        return float((self.base_lr - self.end_lr) * left + self.end_lr)


class LinearWarmup(LRScheduler):
    """From start_lr to end_lr in warmup_steps steps, then `learning_rate`, a number or schedule."""

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        warmup_steps: int,
        start_lr: float,
        end_lr: float,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(learning_rate, float | int | LRScheduler):
            raise TypeError(
                "the type of learning_rate should be [int, float or LRScheduler], the current "
                f"type is {learning_rate}"
            )
        assert warmup_steps > 0 and isinstance(warmup_steps, int), (
            " 'warmup_steps' must be a positive integer."
        )
        assert end_lr > start_lr, f"end_lr {end_lr} must be greater than start_lr {start_lr}"
        self.learning_rate, self.warmup_steps = learning_rate, warmup_steps
        self.start_lr, self.end_lr = start_lr, end_lr
        super().__init__(start_lr, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `last_epoch`; a schedule begins when the warmup is over."""
        if self.last_epoch < self.warmup_steps:
            share = float(self.last_epoch) / float(self.warmup_steps)
            return (self.end_lr - self.start_lr) * share + self.start_lr
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.step(self.last_epoch - self.warmup_steps)
            return self.learning_rate()
        return self.learning_rate

    def state_dict(self) -> dict[str, Any]:
        kept = super().state_dict()
        if isinstance(self.learning_rate, LRScheduler):
            kept["LinearWarmup_LR"] = self.learning_rate.state_dict()
        return kept

    def set_state_dict(self, state_dict: Any) -> None:
        super().set_state_dict(state_dict)
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.set_state_dict(state_dict["LinearWarmup_LR"])


class MultiStepDecay(LRScheduler):
    """Times `gamma` at each of the epochs `milestones`."""

    def __init__(
        self,
        learning_rate: float,
        milestones: Sequence[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(milestones, tuple | list):
            raise TypeError(
                "The type of 'milestones' in 'MultiStepDecay' must be 'tuple, list', but received "
                f"{type(milestones)}."
            )
        if list(milestones) != sorted(set(milestones)):
            raise ValueError("The elements of milestones must be incremented")
        _require_falling(gamma)
        self.milestones, self.gamma = milestones, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `last_epoch`."""
        passed = sum(self.last_epoch >= one for one in self.milestones)
        return float(self.base_lr * self.gamma**passed)


class StepDecay(LRScheduler):
    """Times `gamma` after each `step_size` epochs."""

    def __init__(
        self,
        learning_rate: float,
        step_size: int,
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(step_size, int):
            raise TypeError(
                f"The type of 'step_size' must be 'int', but received {type(step_size)}."
            )
        _require_falling(gamma)
        assert step_size > 0, " 'step_size' must be a positive integer."
        self.step_size, self.gamma = step_size, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `last_epoch`."""
        return float(self.base_lr * self.gamma ** (self.last_epoch // self.step_size))


class _ByFunction(LRScheduler):
    def __init__(
        self,
        learning_rate: float,
        lr_lambda: Callable[[int], float],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not callable(lr_lambda):
            raise TypeError(
                f"The type of 'lr_lambda' in '{type(self).__name__}' must be 'function', but "
                f"received {type(lr_lambda)}."
            )
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)


class LambdaDecay(_ByFunction):
    """learning_rate times what a function gives for the epoch."""

    def get_lr(self) -> float:
        """The rate of `last_epoch`."""
        return self.base_lr * self.lr_lambda(self.last_epoch)


class MultiplicativeDecay(_ByFunction):
    """The former rate times what a function gives for the epoch."""

    def get_lr(self) -> float:
        """The rate of `last_epoch`."""
        rate = self.base_lr
        for epoch in range(1, self.last_epoch + 1):
            rate = rate * self.lr_lambda(epoch)
        return rate


def _require_falling(gamma: float) -> None:
    if gamma >= 1.0:
        raise ValueError("gamma should be < 1.0.")


class LinearLR(LRScheduler):
    """learning_rate times a factor: from start_factor to end_factor in total_steps steps."""

    def __init__(
        self,
        learning_rate: float,
        total_steps: int,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                f"`start_factor` must be greater than 0 and less or equal to 1, but got "
                f"{start_factor}"
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError(
                f"`end_factor` must be greater than 0 and less than 1, but got {end_factor}"
            )
        if total_steps <= 0:
            raise ValueError(f"`total_steps` must be greater than 0, but got {total_steps}")
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_steps = total_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `last_epoch`."""
        share = min(self.last_epoch, self.total_steps) / self.total_steps
        return self.base_lr * (self.start_factor + (self.end_factor - self.start_factor) * share)
