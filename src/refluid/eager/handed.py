"""Gradients that parameters are given without a node of autograd for each of them.

A program of many parameters (`fluid.dygraph.translation.running`) stands in autograd's graph as one
node with one source, `anchor`; when its gradients are there it hands them to the parameters
itself. `grad`, which changes no parameter, collects what is handed over instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from refluid.core.selected_rows import SelectedRows
from refluid.kernels.gradient_hooks import has_hooks, hooked

if TYPE_CHECKING:
    from refluid.eager.tensor import VarBase


class Handed:
    """Where gradients of parameters go. anchor: what leads autograd to those who hand them.

    latest: is told of the update after `backward` gave all gradients that there are.
    """

    def __init__(self) -> None:
        self.latest: Callable[..., None] | None = None
        self.anchor = torch.zeros((), requires_grad=True)
        self._promised: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
        self._asked: dict[int, Tensor] | None = None

    def may_take(self, value: Tensor) -> bool:
        """Whether a tensor's gradient may be handed over: it is a leaf's that no hook is to see."""
        return value.is_leaf and not has_hooks(value)

    def promise(self, values: Iterable[Tensor]) -> None:
        """Notes tensors of parameters that will be given gradients."""
        for one in values:
            if not self.promised(one):
                self._promised[id(one)] = one

    def promised(self, value: Tensor) -> bool:
        """Whether a parameter of that tensor may be given gradients."""
        return self._promised.get(id(value)) is value

    def leads_to(self, values: Iterable[Tensor]) -> list[Tensor]:
        """What autograd must go to as well for the gradients of these tensors."""
        return [self.anchor] if any(map(self.promised, values)) else []

    def give(self, var: VarBase, gradient: Tensor | SelectedRows) -> None:
        """Adds to the gradient of a parameter what nobody else holds."""
        value, asked = var._value, self._asked
        if has_hooks(value):  # since the function was called
            dense = gradient.to_dense() if isinstance(gradient, SelectedRows) else gradient
            gradient = hooked(value, dense)
        if isinstance(gradient, SelectedRows):
            if asked is None:
                var.add_rows(gradient)
                return
            gradient = gradient.to_dense()
        if asked is not None:
            known = asked.get(id(value))
            asked[id(value)] = gradient if known is None else known + gradient
        elif value.grad is not None:
            value.grad.add_(gradient)
        elif gradient.stride() == value.stride():
            value.grad = gradient
        else:
            value.grad = torch.empty_like(value, requires_grad=False).copy_(gradient)

    @contextmanager
    def collected(self) -> Iterator[dict[int, Tensor]]:
        """What is handed over within, by the tensor's id, instead of to parameters."""
        former, self._asked = self._asked, {}
        try:
            yield self._asked
        finally:
            self._asked = former


handed = Handed()
