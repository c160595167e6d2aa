"""Gradients of programs: `fluid.backward`, `fluid.gradients`."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from refluid import autodiff
from refluid.ir.names import GRAD
from refluid.ir.variable import Variable

__all__ = ["append_backward", "gradients"]


def append_backward(
    loss: Variable,
    parameter_list: Any = None,
    no_grad_set: Any = None,
    callbacks: Any = None,
    checkpoints: Any = None,
) -> list[tuple[Variable, Variable]]:
    """Appends the backward pass of `loss`, of shape (1,), to its program.

    Returns (parameter, gradient) pairs, see `refluid.autodiff.append_backward`.

        loss = fluid.layers.mean(fluid.layers.square_error_cost(y_predict, y))
        for parameter, gradient in fluid.backward.append_backward(loss):
            print(parameter.name, gradient.name)
    """
    return autodiff.append_backward(loss, parameter_list, no_grad_set, callbacks, checkpoints)


def gradients(
    targets: Any, inputs: Any, target_gradients: Any = None, no_grad_set: Any = None
) -> list[Variable | None]:
    """Appends the gradients of `targets` by `inputs`; None for an input without influence.

    See `refluid.autodiff.gradients`. Where the only input has no influence, the list is empty,
    as in Fluid.

        x.stop_gradient = False
        (x_gradient,) = fluid.gradients([y], x)
    """
    found = autodiff.gradients(targets, inputs, target_gradients, no_grad_set)
    return [] if len(found) == 1 and found[0] is None else found


def calc_gradient(
    targets: Any, inputs: Any, target_gradients: Any = None, no_grad_set: Any = None
) -> list[Variable | None]:
    """The older name of `gradients`."""
    return gradients(targets, inputs, target_gradients, no_grad_set)


def _append_grad_suffix_(name: str) -> str:
    """The name of a variable's gradient."""
    return name + GRAD


def _strip_grad_suffix_(name: str) -> str:
    """The name of the variable whose gradient this is; any other name as it is."""
    return name.partition(GRAD)[0]


def _some_in_set_(cands: Iterable[str], s: Container[str]) -> bool:
    """Whether any of these names is in the set."""
    return any(name in s for name in cands)
