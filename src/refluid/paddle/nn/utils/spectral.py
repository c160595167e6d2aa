"""Weights divided by their largest singular value."""

from __future__ import annotations

from typing import Any

import torch

from refluid.eager import VarBase
from refluid.paddle.nn.layer.conv import Conv1DTranspose, Conv2DTranspose, Conv3DTranspose
from refluid.paddle.nn.layer.parameters import Linear
from refluid.paddle.nn.utils.hooked import Computed, parameter_of, taken
from refluid.paddle.tensor import math
from refluid.paddle.tensor.reduction import sum as total

_SECOND = (Conv1DTranspose, Conv2DTranspose, Conv3DTranspose, Linear)


def spectral_norm(
    layer: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """Has a layer compute its weight as NAME_orig divided by its largest singular value; the layer.

    That is estimated by `n_power_iterations` rounds before each call in training, which go on
    from the vectors NAME_u and NAME_v. dim: the rows of the weight as a matrix: 1 for linear
    maps and transposed convolutions, else 0. ValueError for fewer than one round.
    """
    if n_power_iterations <= 0:
        raise ValueError(
            f"Expected n_power_iterations to be positive, but got {n_power_iterations}"
        )
    weight = taken(layer, name, "nn.utils.spectral_norm")
    place = (1 if isinstance(layer, _SECOND) else 0) if dim is None else dim
    rows = weight.tensor.detach().movedim(place, 0).flatten(1)
    layer.add_parameter(f"{name}_orig", parameter_of(layer, weight))
    for part, size in zip("uv", rows.shape, strict=True):
        drawn = torch.randn(size, dtype=rows.dtype, device=rows.device)
        unit = drawn / drawn.norm().clamp_min(eps)
        layer.register_buffer(f"{name}_{part}", VarBase(unit, stop_gradient=True))

    def compute() -> Any:
        own = getattr(layer, f"{name}_orig")
        u, v = (getattr(layer, f"{name}_{part}").tensor for part in "uv")
        value = own.tensor.detach().movedim(place, 0)
        if layer.training:
            _rounds(value.flatten(1), u, v)
        vectors = torch.outer(u, v).reshape(value.shape).movedim(0, place)
        largest = total(math.multiply(own, VarBase(vectors, stop_gradient=True)))
        return math.divide(own, largest)

    def _rounds(matrix: torch.Tensor, u: torch.Tensor, v: torch.Tensor) -> None:
        for _ in range(n_power_iterations):
            v.copy_(torch.nn.functional.normalize(matrix.t().mv(u), dim=0, eps=eps))
            u.copy_(torch.nn.functional.normalize(matrix.mv(v), dim=0, eps=eps))

    Computed(layer, name, compute)
    return layer
