"""The activations of recurrent units: in place, and their gradients from their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.by_loops import loops_pay, of_cpu

aten = torch.ops.aten


@dataclass(frozen=True)
class Activation:
    """apply(x) overwrites x, into(x, out) does not; both give the result y.

    backward(grad, y, out) writes grad * dy/dx.
    """

    apply: Callable[[Tensor], Tensor]
    into: Callable[[Tensor, Tensor], Tensor]
    backward: Callable[[Tensor, Tensor, Tensor], Tensor]


def _sigmoid_backward(grad: Tensor, y: Tensor, out: Tensor) -> Tensor:
    made: Tensor = aten.sigmoid_backward.grad_input(grad, y, grad_input=out)
    return made


def _tanh_backward(grad: Tensor, y: Tensor, out: Tensor) -> Tensor:
    made: Tensor = aten.tanh_backward.grad_input(grad, y, grad_input=out)
    return made


def _relu_backward(grad: Tensor, y: Tensor, out: Tensor) -> Tensor:
    made: Tensor = aten.threshold_backward.grad_input(grad, y, 0, grad_input=out)
    return made


def _identity_backward(grad: Tensor, y: Tensor, out: Tensor) -> Tensor:
    return out.copy_(grad)


_NUMBERED = {
    "identity": Activation(lambda x: x, lambda x, out: out.copy_(x), _identity_backward),
    "sigmoid": Activation(torch.sigmoid_, lambda x, y: torch.sigmoid(x, out=y), _sigmoid_backward),
    "tanh": Activation(torch.tanh_, lambda x, y: torch.tanh(x, out=y), _tanh_backward),
    "relu": Activation(torch.relu_, lambda x, y: torch.clamp_min(x, 0, out=y), _relu_backward),
}
_NAMED = _NUMBERED | {"": _NUMBERED["identity"], "linear": _NUMBERED["identity"]}


def activation(name: str) -> Activation:
    """The activation of that name; EnforceNotMet for another than identity, sigmoid, tanh, relu."""
    if name not in _NAMED:
        raise EnforceNotMet(
            f"{name!r} is no activation of a recurrent unit; they are {', '.join(_NUMBERED)}"
        )
    return _NAMED[name]


def numbers_of(names: Sequence[str]) -> tuple[int, ...]:
    """The numbers of activations, as compiled loops and `gru_unit` know them."""
    return tuple(map(_number, names))


@cache
def _number(name: str) -> int:
    return [*_NUMBERED.values()].index(activation(name))


# Steps of so many numbers of gates are loops from the first call on.
_MANY = 2**17


def loops_of(gates: Tensor, *others: Tensor | None) -> Any:
    """`kernels/recurrent`, where the steps over so many gates are compiled loops; else None.

    They are for float32 on the CPU.
    """
    if not gates.numel() or not loops_pay(gates.numel(), _MANY):
        return None
    if not of_cpu(torch.float32, gates, *others):
        return None
    from refluid.kernels import recurrent  # few programs have so many

    return recurrent


def numbered_activation(number: int) -> Activation:
    """The activation that `gru_unit` knows by number: identity, sigmoid, tanh, relu."""
    return list(_NUMBERED.values())[number]
