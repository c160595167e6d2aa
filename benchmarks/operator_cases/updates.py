"""Optimizers: one update of many parameters from gradients that are there already."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

import refluid.fluid as fluid
from benchmarks.operator_cases.case import Array, Case, Random, normal

COUNT, SHAPE = 40, (256, 128)
RATE = 0.01
Optimizer = Callable[[list[Tensor]], torch.optim.Optimizer]


def _gradients(random: Random) -> Mapping[str, Array]:
    return {f"Grad{place}": normal(random, *SHAPE) for place in range(COUNT)}


def _updates(optimizer: Callable[[], Any]) -> Callable[[Mapping[str, Any]], Any]:
    """Appends an update for each gradient."""

    def build(given: Mapping[str, Any]) -> Any:
        constant = fluid.initializer.Constant(0.5)
        params = [
            fluid.layers.create_parameter(SHAPE, "float32", default_initializer=constant)
            for _ in given
        ]
        optimizer().apply_gradients(list(zip(params, given.values(), strict=True)))
        return params[-1]

    return build


class TorchUpdates:
    """The same by an optimizer of torch."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.make = optimizer
        self.params: list[Tensor] = []

    def __call__(self, *gradients: Tensor) -> Tensor:
        if not self.params:
            self.params = [torch.full(SHAPE, 0.5).requires_grad_() for _ in gradients]
            self.optimizer = self.make(self.params)
            for param, gradient in zip(self.params, gradients, strict=True):
                param.grad = gradient
        self.optimizer.step()
        return self.params[-1].detach()


_KINDS: dict[str, tuple[Callable[[], Any], Optimizer]] = {
    "sgd": (
        lambda: fluid.optimizer.SGD(RATE),
        lambda params: torch.optim.SGD(params, RATE, fused=True),
    ),
    "momentum": (
        lambda: fluid.optimizer.Momentum(RATE, 0.9),
        lambda params: torch.optim.SGD(params, RATE, 0.9, fused=True),
    ),
    "adam": (
        lambda: fluid.optimizer.Adam(RATE),
        lambda params: torch.optim.Adam(params, RATE, fused=True),
    ),
    "adagrad": (
        lambda: fluid.optimizer.Adagrad(RATE),
        lambda params: torch.optim.Adagrad(params, RATE, fused=True),
    ),
    "adamax": (
        lambda: fluid.optimizer.Adamax(RATE),
        lambda params: torch.optim.Adamax(params, RATE, foreach=True),
    ),
    "adadelta": (
        lambda: fluid.optimizer.Adadelta(RATE, rho=0.9),
        lambda params: torch.optim.Adadelta(params, RATE, foreach=True),
    ),
    "rmsprop": (
        lambda: fluid.optimizer.RMSProp(RATE, rho=0.99),
        lambda params: torch.optim.RMSprop(params, RATE, foreach=True),
    ),
}
_WHY = {
    "adamax": "Fluid's programs scale a power of beta for every parameter, an operator each",
    "adagrad": "PyTorch has a kernel for the whole update, refluid does it step by step",
}

CASES = tuple(
    Case(
        f"{name}, {COUNT} parameters",
        _gradients,
        _updates(ours),
        TorchUpdates(theirs),
        (),
        tuple(f"Grad{place}" for place in range(COUNT)),
        same=False,
        updates=True,
        reason=_WHY.get(name, ""),
    )
    for name, (ours, theirs) in _KINDS.items()
)
