"""Layers that are described, and made by the worker that runs them only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from refluid.fluid.dygraph.layers import Layer

__all__ = ["LayerDesc", "SharedLayerDesc"]


class LayerDesc:
    """`layer_func(*inputs, **kwargs)`, a layer. TypeError for what is no class of layers."""

    def __init__(self, layer_func: Any, *inputs: Any, **kwargs: Any) -> None:
        if not (isinstance(layer_func, type) and issubclass(layer_func, Layer)):
            raise TypeError("The input of LayerDesc should be a class of layers")
        self.layer_func, self.inputs, self.kwargs = layer_func, inputs, kwargs

    def build_layer(self) -> Any:
        """Makes the layer."""
        return self.layer_func(*self.inputs, **self.kwargs)

    def __repr__(self) -> str:
        return f"LayerDesc({self.layer_func.__name__})"


class SharedLayerDesc(LayerDesc):
    """The same of layers that have a weight in common with others of that key.

    forward_func: called with the layer and its input, instead of the layer. shared_weight_attr: the
    name of the weight.
    """

    def __init__(
        self,
        key: str,
        layer_func: Any,
        forward_func: Callable[..., Any] | None = None,
        shared_weight_attr: str = "weight",
        *inputs: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(layer_func, *inputs, **kwargs)
        self.layer_name, self.forward_func = key, forward_func
        self.shared_weight_attr = shared_weight_attr
