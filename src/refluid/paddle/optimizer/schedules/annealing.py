"""Rates along cosines and in cycles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from refluid.paddle.optimizer.schedules.base import LRScheduler


class CosineAnnealingDecay(LRScheduler):
    """From learning_rate to eta_min and back along a cosine of half-period T_max."""

    def __init__(
        self,
        learning_rate: float,
        T_max: int,
        eta_min: float = 0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(T_max, int):
            raise TypeError(
                "The type of 'T_max' in 'CosineAnnealingDecay' must be 'int', but received "
                f"{type(T_max)}."
            )
        assert T_max > 0, " 'T_max' must be a positive integer."
        self.T_max, self.eta_min = T_max, float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `last_epoch`, from the one before."""
        now, period, low = self.last_epoch, self.T_max, self.eta_min
        if now == 0:
            return self.base_lr
        if (now - 1 - period) % (2 * period) == 0:
            return self.last_lr + (self.base_lr - low) * (1 - math.cos(math.pi / period)) / 2
        share = (1 + math.cos(math.pi * now / period)) / (
            1 + math.cos(math.pi * (now - 1) / period)
        )
        return share * (self.last_lr - low) + low

    def _get_closed_form_lr(self) -> float:
        high, low = self.base_lr, self.eta_min
        return low + (high - low) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """From learning_rate to eta_min along half a cosine of T_0 epochs; anew, T_mult as long."""

    def __init__(
        self,
        learning_rate: float,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0, self.T_i, self.T_mult = T_0, T_0, T_mult
        self.eta_min, self.T_cur = float(eta_min), last_epoch
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `T_cur` epochs after the last restart."""
        cosine = math.cos(math.pi * self.T_cur / self.T_i)
        return self.eta_min + (self.base_lr - self.eta_min) * (1 + cosine) / 2

    def step(self, epoch: int | None = None) -> None:
        """Moves on by one, or to `epoch`."""
        now = self.last_epoch + 1 if epoch is None else epoch
        if now < 0:
            raise ValueError(f"Expected non-negative epoch, but got {now}")
        self.T_i, self.T_cur = self.T_0, now
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult
        self.last_epoch = now
        self.last_lr = self.get_lr()
        if self.verbose:
            print(
                f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to "
                f"{self.last_lr}."
            )


class OneCycleLR(LRScheduler):
    """Up to max_learning_rate and down again, once in total_steps steps.

    divide_factor: the rate begins at a share of the greatest. end_learning_rate: where it ends.
    phase_pct: the share of steps in which it rises. anneal_strategy: `cos` or `linear`.
    three_phase: down to where it began, as long as it rose, then to the end.
    """

    def __init__(
        self,
        max_learning_rate: float,
        total_steps: int,
        divide_factor: float = 25.0,
        end_learning_rate: float = 0.0001,
        phase_pct: float = 0.3,
        anneal_strategy: str = "cos",
        three_phase: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if total_steps <= 0:
            raise ValueError("'total_step' must be a positive integer.")
        if not 0 <= phase_pct <= 1:
            raise ValueError(f"'phase_pct' must be between 0 and 1, but received {phase_pct}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError("'anneal_strategy' must by one of 'cos' or 'linear'")
        first = max_learning_rate / float(divide_factor)
        self.total_steps, self._strategy = total_steps, anneal_strategy
        rising = phase_pct * total_steps - 1
        # (the step that a phase ends with, its first rate, its last)
        if three_phase:
            if phase_pct > 0.5:
                raise ValueError(
                    "When three_phase is True, 'phase_pct' must be not greater than 0.5"
                )
            ends = [
                (rising, first, max_learning_rate),
                (2 * phase_pct * total_steps - 2, max_learning_rate, first),
                (total_steps - 1, first, end_learning_rate),
            ]
        else:
            ends = [
                (rising, first, max_learning_rate),
                (total_steps - 1, max_learning_rate, end_learning_rate),
            ]
        self._phases = ends
        super().__init__(first, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `last_epoch`; ValueError after `total_steps`."""
        now = self.last_epoch
        if now > self.total_steps:
            raise ValueError(
                f"Tried to step {now} times. However the number of total steps is "
                f"{self.total_steps}"
            )
        begin = 0.0
        for number, (end, low, high) in enumerate(self._phases):
            if now <= end or number == len(self._phases) - 1:
                share = (now - begin) / (end - begin)
                return self._between(low, high, share)
            begin = end
        raise AssertionError("the last phase never ends")

    def _between(self, start: float, end: float, share: float) -> float:
        if self._strategy == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
        return (end - start) * share + start


class CyclicLR(LRScheduler):
    """Between two rates, up in step_size_up steps and down in step_size_down.

    mode: `triangular`, `triangular2` (half as high each cycle) or `exp_range` (times exp_gamma
    for each step). scale_fn, scale_mode: a function of the `cycle` or `iterations` instead.
    """

    def __init__(
        self,
        base_learning_rate: float,
        max_learning_rate: float,
        step_size_up: int,
        step_size_down: int | None = None,
        mode: str = "triangular",
        exp_gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if step_size_up <= 0 or (step_size_down is not None and step_size_down <= 0):
            raise ValueError("'step_size_up' and 'step_size_down' must be positive")
        modes: dict[str, tuple[Callable[[float], float], str]] = {
            "triangular": (lambda _cycle: 1.0, "cycle"),
            "triangular2": (lambda cycle: 1 / (2.0 ** (cycle - 1)), "cycle"),
            "exp_range": (lambda step: exp_gamma**step, "iterations"),
        }
        if mode not in modes and scale_fn is None:
            raise ValueError(
                "'mode' is invalid and 'scale_fn' is not specified, make sure one of 'mode' or "
                "'scale_fn' is valid"
            )
        if scale_mode not in ("cycle", "iterations"):
            raise ValueError("'scale_mode' must be one of 'cycle' or 'iterations'")
        down = step_size_up if step_size_down is None else step_size_down
        self.cycle_size = float(step_size_up + down)
        self.step_up_pct = step_size_up / self.cycle_size
        self.max_lr = float(max_learning_rate)
        self.amplitude = self.max_lr - base_learning_rate
        scaled: Any = (scale_fn, scale_mode) if scale_fn is not None else modes[mode]
        self.scale_fn, self.scale_mode = scaled
        super().__init__(base_learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `last_epoch`."""
        now = self.last_epoch
        cycle = 1 + now // self.cycle_size
        share = 1.0 + now / self.cycle_size - cycle
        up = share / self.step_up_pct
        height = up if share <= self.step_up_pct else (1 - share) / (1 - self.step_up_pct)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else now)
        return float(self.base_lr + self.amplitude * height * scale)
