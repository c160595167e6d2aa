"""Weights as a direction and a length, each of them trained."""

from __future__ import annotations

from typing import Any

from refluid.paddle.nn.utils.hooked import Computed, parameter_of, taken
from refluid.paddle.tensor import manipulation, math
from refluid.paddle.tensor.reduction import sum as total


def _length(v: Any, dim: int) -> Any:
    """The lengths of a weight's parts along a dimension, of the whole with -1."""
    axes = [axis for axis in range(len(v.shape)) if axis != dim]
    return math.sqrt(total(math.multiply(v, v), axes, keepdim=True))


def weight_norm(layer: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Has a layer compute its weight as NAME_g * NAME_v / |NAME_v|, both trained; the layer.

    dim: the dimension along which each part has a length of its own; None for one of the whole.
    Raises KeyError where the layer has no such parameter, AssertionError for another dimension.
    """
    weight = taken(layer, name, "nn.utils.weight_norm")
    rank = len(weight.shape)
    if dim is not None and not -rank <= dim < rank:
        layer._parameters[name] = weight
        raise AssertionError("dim must set between [-R, R), R means the dimension of weight.")
    place = -1 if dim is None else dim % rank
    v = parameter_of(layer, weight)
    lengths = _length(v, place)
    shape = [1 if axis != place else size for axis, size in enumerate(weight.shape)]
    g = parameter_of(layer, manipulation.reshape(lengths, [-1]))
    layer.add_parameter(f"{name}_v", v)
    layer.add_parameter(f"{name}_g", g)

    def compute() -> Any:
        own = getattr(layer, f"{name}_v")
        ratio = math.divide(
            manipulation.reshape(getattr(layer, f"{name}_g"), shape), _length(own, place)
        )
        return math.multiply(own, ratio)

    layer.__dict__[f"_{name}_norm"] = Computed(layer, name, compute)
    return layer


def remove_weight_norm(layer: Any, name: str = "weight") -> Any:
    """Undoes `weight_norm`: the weight is a parameter again; the layer. ValueError without one."""
    computed = layer.__dict__.pop(f"_{name}_norm", None)
    if computed is None:
        raise ValueError(f"weight_norm of '{name}' not found in {layer}")
    computed(layer, None)
    value = computed.leave(layer)
    for part in ("g", "v"):
        del layer._parameters[f"{name}_{part}"]
    layer.add_parameter(name, parameter_of(layer, value.detach()))
    return layer
