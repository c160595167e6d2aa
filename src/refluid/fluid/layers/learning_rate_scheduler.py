"""Learning-rate schedules: operators that compute the rate from a counter of steps.

Each returns a float32 variable of shape (1,) for an optimizer's `learning_rate`. The counter
`@LR_DECAY_COUNTER@` grows by one per run of the program.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec

from refluid.build import at_once
from refluid.fluid import layers
from refluid.ir.defaults import default_main_program
from refluid.ir.variable import Variable

__all__ = [
    "cosine_decay",
    "exponential_decay",
    "inverse_time_decay",
    "linear_lr_warmup",
    "natural_exp_decay",
    "noam_decay",
    "piecewise_decay",
    "polynomial_decay",
]

COUNTER = "@LR_DECAY_COUNTER@"
Arguments = ParamSpec("Arguments")


# Where operators run at once, a schedule is an object that an optimizer asks.
_AT_ONCE = {
    "cosine_decay": "CosineDecay",
    "exponential_decay": "ExponentialDecay",
    "inverse_time_decay": "InverseTimeDecay",
    "linear_lr_warmup": "LinearLrWarmup",
    "natural_exp_decay": "NaturalExpDecay",
    "noam_decay": "NoamDecay",
    "piecewise_decay": "PiecewiseDecay",
    "polynomial_decay": "PolynomialDecay",
}


def _object(name: str, given: Mapping[str, Any]) -> Any:
    from refluid.fluid.dygraph.parts import schedules  # most programs are static

    first = {"begin": 0} if name == "piecewise_decay" else {}
    return getattr(schedules, _AT_ONCE[name])(**given, **first)


def _schedule(build: Callable[Arguments, Variable]) -> Callable[Arguments, Variable]:
    """Operators that `build` appends get the role of a learning-rate schedule."""
    signature = inspect.signature(build)

    @functools.wraps(build)
    def scheduled(*args: Arguments.args, **options: Arguments.kwargs) -> Any:
        if at_once():
            return _object(build.__name__, signature.bind(*args, **options).arguments)
        with default_main_program().lr_schedule_guard():
            return build(*args, **options)

    return scheduled


def _decay_step_counter(begin: int = 0) -> Variable:
    """Number of the current step, the first being `begin`, as float32."""
    counter = layers.autoincreased_step_counter(counter_name=COUNTER, begin=begin, step=1)
    return layers.cast(counter, "float32")


def _periods(decay_steps: float, staircase: bool) -> Variable:
    """Steps in units of `decay_steps`, whole ones only where `staircase`."""
    periods = _decay_step_counter() / decay_steps
    return layers.floor(periods) if staircase else periods


@_schedule
def noam_decay(
    d_model: float | Variable, warmup_steps: float | Variable, learning_rate: float | Variable = 1.0
) -> Variable:
    """learning_rate * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), step from 1.

    The schedule of "Attention Is All You Need": a linear warm-up, then a slow decay.
    """
    step = _decay_step_counter(begin=1)
    decay = step**-0.5
    warmup = warmup_steps**-1.5 * step
    rate: Variable = learning_rate * d_model**-0.5 * layers.elementwise_min(decay, warmup)
    return rate


@_schedule
def exponential_decay(
    learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False
) -> Variable:
    """learning_rate * decay_rate ^ (step / decay_steps); in whole periods where `staircase`."""
    rate: Variable = learning_rate * decay_rate ** _periods(decay_steps, staircase)
    return rate


@_schedule
def natural_exp_decay(
    learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False
) -> Variable:
    """learning_rate * exp(-decay_rate * step / decay_steps); whole periods where `staircase`."""
    rate: Variable = learning_rate * layers.exp(-1 * decay_rate * _periods(decay_steps, staircase))
    return rate


@_schedule
def inverse_time_decay(
    learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False
) -> Variable:
    """learning_rate / (1 + decay_rate * step / decay_steps); whole periods where `staircase`."""
    rate: Variable = learning_rate / (1 + decay_rate * _periods(decay_steps, staircase))
    return rate


@_schedule
def polynomial_decay(
    learning_rate: float,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
) -> Variable:
    """From learning_rate to end_learning_rate along (1 - step / decay_steps) ^ power.

    After `decay_steps` the rate stays, or, where `cycle`, the next period begins: then
    decay_steps grows to the next multiple of itself that is not below step.
    """
    step = _decay_step_counter()
    span: float | Variable = float(decay_steps)
    if cycle:
        first = layers.fill_constant(shape=[1], dtype="float32", value=1.0)
        span = decay_steps * layers.elementwise_max(layers.ceil(step / decay_steps), first)
    else:
        last = layers.fill_constant(shape=[1], dtype="float32", value=float(decay_steps))
        step = layers.elementwise_min(x=step, y=last)
    left: Variable = (1 - step / span) ** power
    rate: Variable = (learning_rate - end_learning_rate) * left + end_learning_rate
    return rate


@_schedule
def piecewise_decay(boundaries: Sequence[int], values: Sequence[float]) -> Variable:
    """values[i] while step < boundaries[i], the last value from the last boundary on.

    Raises ValueError unless there is one value more than boundaries.
    """
    if len(values) - len(boundaries) != 1:
        raise ValueError(
            "len(values) - len(boundaries) should be 1, "
            f"but there are {len(values)} values and {len(boundaries)} boundaries"
        )
    step = _decay_step_counter()
    rate = _rate("learning_rate")
    with layers.Switch() as switch:
        for boundary, value in zip(boundaries, values, strict=False):
            limit = _constant(boundary, force_cpu=True)
            chosen = _constant(value)
            with switch.case(step < limit):
                layers.assign(chosen, rate)
        chosen = _constant(values[-1])
        with switch.default():
            layers.assign(chosen, rate)
    return rate


@_schedule
def cosine_decay(learning_rate: float, step_each_epoch: int, epochs: int) -> Variable:
    """learning_rate / 2 * (cos(epoch * pi / epochs) + 1), epoch = step // step_each_epoch."""
    epoch = layers.floor(_decay_step_counter() / step_each_epoch)
    rate: Variable = learning_rate * 0.5 * (layers.cos(epoch * math.pi / epochs) + 1)
    return rate


@_schedule
def linear_lr_warmup(
    learning_rate: float | Variable, warmup_steps: int, start_lr: float, end_lr: float
) -> Variable:
    """From start_lr to end_lr within the first `warmup_steps` steps, then learning_rate.

    learning_rate: a float or the variable another schedule returned.
    """
    rate = _rate("learning_rate_warmup")
    step = _decay_step_counter()
    later = learning_rate if isinstance(learning_rate, Variable) else _constant(learning_rate)
    with layers.Switch() as switch:
        with switch.case(step < warmup_steps):
            layers.assign((end_lr - start_lr) * (step / float(warmup_steps)) + start_lr, rate)
        with switch.default():
            layers.assign(later, rate)
    return rate


def _constant(value: float, *, force_cpu: bool = False) -> Variable:
    return layers.fill_constant(shape=[1], dtype="float32", value=float(value), force_cpu=force_cpu)


def _rate(name: str) -> Variable:
    """The persistable variable that the schedule writes."""
    return layers.create_global_var(
        shape=[1], value=0.0, dtype="float32", persistable=True, name=name
    )
