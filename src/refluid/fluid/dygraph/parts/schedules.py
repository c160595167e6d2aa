"""Learning rates that follow the number of the step."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from refluid.eager import VarBase

_log = logging.getLogger("refluid")
# What a warmup keeps of the schedule that follows it: Paddle 2 calls its own so.
_FOLLOWS = "LinearWarmup_LR"


def number_of(rate: Any) -> float:
    """A rate, or that of another schedule."""
    return rate.item() if isinstance(rate, VarBase) else float(rate)


class LearningRateDecay:
    """Base of schedules: calling one gives the rate of the step that `step_num` counts.

    begin: the first step's number. step: how far each call counts.
    """

    def __init__(self, begin: int = 0, step: int = 1, dtype: Any = "float32") -> None:
        self.step_num = begin
        self.step_size = step
        self.dtype = dtype
        self.keys: list[str] = []

    def __call__(self) -> VarBase:
        """The rate of step `step_num`, a variable of shape (1,); the next call is of the next."""
        return self.create_lr_var(self._refluid_next())

    def _refluid_next(self) -> float:
        """What a call gives, as a number: optimizers need no variable."""
        rate = self._refluid_rate()
        self.step_num += self.step_size
        return rate

    def _refluid_rate(self) -> float:
        """The rate of step `step_num`, as a number."""
        return number_of(self.step())

    def create_lr_var(self, lr: float) -> VarBase:
        """The rate as a variable of shape (1,)."""
        from refluid.fluid.functions.tensor.creation import fill_constant

        made = fill_constant([1], self.dtype, float(lr))
        assert isinstance(made, VarBase)
        return made

    def step(self) -> Any:
        """The rate of step `step_num`."""
        raise NotImplementedError(f"{type(self).__name__} must define step")

    def state_dict(self) -> dict[str, Any]:
        """What `set_dict` needs to go on: the attributes that `keys` names."""
        self._state_keys()
        found = {key: self.__dict__[key] for key in self.keys}
        return {key: one.item() if isinstance(one, VarBase) else one for key, one in found.items()}

    def _state_keys(self) -> None:
        self.keys = ["step_num"]

    def set_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on where `state_dict` was taken. RuntimeError for a missing entry."""
        self._state_keys()
        for key in self.keys:
            if key not in state_dict:
                raise RuntimeError(
                    f"Please check whether state_dict is correct for optimizer. Can't find [ {key} "
                    "] in state_dict"
                )
            self.__dict__[key] = state_dict[key]


class _Computed(LearningRateDecay):
    """Base of those whose `step` is a variable, as Fluid computes it of variables."""

    def step(self) -> Any:
        """The rate of step `step_num`, a variable of shape (1,)."""
        return self.create_lr_var(self._computed())

    def _computed(self) -> float:
        raise NotImplementedError

    def _refluid_rate(self) -> float:
        plain = type(self).step is _Computed.step  # else a user's class defines it
        return self._computed() if plain else super()._refluid_rate()


class PiecewiseDecay(LearningRateDecay):
    """`values[i]` up to the step `boundaries[i]`, the last one afterwards."""

    def __init__(
        self,
        boundaries: Sequence[int],
        values: Sequence[float],
        begin: int,
        step: int = 1,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(begin, step, dtype)
        self.boundaries, self.values = boundaries, values

    def step(self) -> Any:
        """The rate of step `step_num`."""
        for boundary, value in zip(self.boundaries, self.values, strict=False):
            if self.step_num < boundary:
                return value
        return self.values[len(self.values) - 1]


class _Periodic(_Computed):
    """A rate that falls with the number of periods."""

    def __init__(
        self,
        learning_rate: Any,
        decay_steps: int,
        decay_rate: float,
        staircase: bool = False,
        begin: int = 0,
        step: int = 1,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(begin, step, dtype)
        self.learning_rate, self.decay_steps = learning_rate, decay_steps
        self.decay_rate, self.staircase = decay_rate, staircase

    def _periods(self) -> float:
        periods = self.step_num / self.decay_steps
        return math.floor(periods) if self.staircase else periods


class NaturalExpDecay(_Periodic):
    """learning_rate * e^(-decay_rate * periods)."""

    def _computed(self) -> float:
        return number_of(self.learning_rate) * math.exp(-self.decay_rate * self._periods())


class ExponentialDecay(_Periodic):
    """learning_rate * decay_rate^periods."""

    def _computed(self) -> float:
        return float(number_of(self.learning_rate) * self.decay_rate ** self._periods())


class InverseTimeDecay(_Periodic):
    """learning_rate / (1 + decay_rate * periods)."""

    def _computed(self) -> float:
        return number_of(self.learning_rate) / (1 + self.decay_rate * self._periods())


class PolynomialDecay(_Computed):
    """From learning_rate to end_learning_rate in decay_steps steps, by a power.

    cycle: it starts again after them, and again after twice as many.
    """

    def __init__(
        self,
        learning_rate: Any,
        decay_steps: int,
        end_learning_rate: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        begin: int = 0,
        step: int = 1,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(begin, step, dtype)
        self.learning_rate, self.decay_steps = learning_rate, decay_steps
        self.end_learning_rate, self.power, self.cycle = end_learning_rate, power, cycle

    def _computed(self) -> float:
        steps, now = self.decay_steps, self.step_num
        if self.cycle:
            steps *= max(1, math.ceil(now / steps))
        else:
            now = min(now, steps)
        left = float((1 - now / steps) ** self.power)
        return (
            number_of(self.learning_rate) - self.end_learning_rate
        ) * left + self.end_learning_rate


class CosineDecay(_Computed):
    """Half a cosine over `epochs`, one value for each."""

    def __init__(
        self,
        learning_rate: Any,
        step_each_epoch: int,
        epochs: int,
        begin: int = 0,
        step: int = 1,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(begin, step, dtype)
        self.learning_rate = learning_rate
        self.step_each_epoch, self.epochs = step_each_epoch, epochs

    def _computed(self) -> float:
        epoch = math.floor(self.step_num / self.step_each_epoch)
        return number_of(self.learning_rate) * 0.5 * (math.cos(epoch * math.pi / self.epochs) + 1)


class NoamDecay(_Computed):
    """learning_rate * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)."""

    def __init__(
        self,
        d_model: float,
        warmup_steps: int,
        begin: int = 1,
        step: int = 1,
        dtype: Any = "float32",
        learning_rate: Any = 1.0,
    ) -> None:
        super().__init__(begin, step, dtype)
        self.learning_rate, self.d_model, self.warmup_steps = learning_rate, d_model, warmup_steps

    def _computed(self) -> float:
        rising = self.warmup_steps**-1.5 * self.step_num
        falling = float("inf") if self.step_num == 0 else self.step_num**-0.5
        return float(number_of(self.learning_rate) * self.d_model**-0.5 * min(falling, rising))


class LinearLrWarmup(LearningRateDecay):
    """From start_lr to end_lr in warmup_steps steps, then `learning_rate`, a number or schedule.

    A schedule's state is part of this one's; where it is missing, the schedule stays as it is.
    """

    def __init__(
        self,
        learning_rate: Any,
        warmup_steps: int,
        start_lr: float,
        end_lr: float,
        begin: int = 1,
        step: int = 1,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(begin, step, dtype)
        if not isinstance(learning_rate, float | int | LearningRateDecay):
            raise TypeError(
                "the type of learning_rate should be [int, float or LearningRateDecay], the "
                f"current type is {learning_rate}"
            )
        assert end_lr > start_lr, f"end_lr {end_lr} must be greater than start_lr {start_lr}"
        self.learning_rate, self.warmup_steps = learning_rate, warmup_steps
        self.start_lr = start_lr
        self.lr_ratio_before_warmup = (end_lr - start_lr) / warmup_steps

    def step(self) -> Any:
        """The rate of step `step_num`."""
        base: Any = self.learning_rate
        if isinstance(base, LearningRateDecay):
            base = base()
        if self.step_num < self.warmup_steps:
            return self.lr_ratio_before_warmup * self.step_num + self.start_lr
        return base

    def state_dict(self) -> dict[str, Any]:
        """What `set_dict` needs to go on, with the state of a schedule that follows."""
        found = super().state_dict()
        if isinstance(self.learning_rate, LearningRateDecay):
            found[_FOLLOWS] = self.learning_rate.state_dict()
        return found

    def set_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on where `state_dict` was taken. RuntimeError for a missing entry."""
        super().set_dict(state_dict)
        if not isinstance(self.learning_rate, LearningRateDecay):
            return
        if _FOLLOWS in state_dict:
            self.learning_rate.set_dict(state_dict[_FOLLOWS])
        else:
            _log.warning(
                "the state of LinearLrWarmup has nothing of the %s that follows it, which stays as "
                "it is: call its own set_dict, or set its step_num, to go on",
                type(self.learning_rate).__name__,
            )
