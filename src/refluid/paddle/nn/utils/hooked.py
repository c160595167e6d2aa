"""A parameter of a layer that is computed from others before each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from refluid.build import at_once
from refluid.ir.at_once import only_at_once


class Computed:
    """Sets a layer's attribute to what `compute` gives, before it is called."""

    def __init__(self, layer: Any, name: str, compute: Callable[[], Any]) -> None:
        self.name, self._compute = name, compute
        self.handle = layer.register_forward_pre_hook(self)
        self(layer, None)

    def __call__(self, layer: Any, inputs: Any) -> None:
        layer.__dict__[self.name] = self._compute()

    def leave(self, layer: Any) -> Any:
        """Takes it away; what the attribute was at last."""
        self.handle.remove()
        return layer.__dict__.pop(self.name)


def taken(layer: Any, name: str, where: str) -> Any:
    """A parameter, which is then no longer one of the layer's. KeyError where there is none."""
    if not at_once():
        only_at_once(where)
    if name not in layer._parameters:
        raise KeyError(name)
    return layer._parameters.pop(name)


def parameter_of(layer: Any, value: Any) -> Any:
    """A new parameter of a layer, with this value."""
    tensor = value.tensor
    made = layer.create_parameter(list(tensor.shape) or [1], dtype=layer._dtype)
    with torch.no_grad():
        made.tensor.copy_(tensor.reshape(made.tensor.shape))
    return made
