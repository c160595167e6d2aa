"""Operators that draw random numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.dtypes import VarType, to_torch
from refluid.ops.reading import integers
from refluid.ops.registry import operator
from refluid.ops.signature import Longs, Random
from refluid.ops.tensor.creation import batch_shape

# So many numbers of a large parameter are looked at together.
_PART = 1 << 20


def _empty(
    shape: Longs,
    tensor: Tensor | None,
    several: list[Tensor] | None,
    dtype: int,
    device: torch.device,
) -> Tensor:
    sizes = integers(shape, tensor, several)
    return torch.empty(sizes, dtype=to_torch(VarType(dtype)), device=device)


@operator("uniform_random", outputs="Out", uses=None, lod="")
def uniform_random(
    ShapeTensor: Tensor | None = None,
    ShapeTensorList: list[Tensor] | None = None,
    *,
    shape: Longs = (),
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    diag_num: int = 0,
    diag_step: int = 0,
    diag_val: float = 1.0,
    dtype: int = 5,
    device: torch.device,
    random: Random,
) -> Tensor:
    """Uniform numbers of [min, max); `diag_num` elements, `diag_step` + 1 apart, are `diag_val`."""
    out = _empty(shape, ShapeTensor, ShapeTensorList, dtype, device)
    return _uniform(out, min, max, random(seed), (diag_num, diag_step, diag_val))


def _uniform(
    out: Tensor,
    low: float,
    high: float,
    generator: torch.Generator | None,
    diagonal: tuple[int, int, float],
) -> Tensor:
    out.uniform_(*sorted((low, high)), generator=generator)
    count, step, value = diagonal
    if count:
        out.view(-1)[: count * (step + 1) : step + 1] = value
    return out


@operator("gaussian_random", outputs="Out", uses=None, lod="", extra={"use_mkldnn": False})
def gaussian_random(
    ShapeTensor: Tensor | None = None,
    ShapeTensorList: list[Tensor] | None = None,
    *,
    shape: Longs = (),
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: int = 5,
    device: torch.device,
    random: Random,
) -> Tensor:
    """Normal numbers of that mean and standard deviation."""
    out = _empty(shape, ShapeTensor, ShapeTensorList, dtype, device)
    return out.normal_(mean, std, generator=random(seed))


@operator("truncated_gaussian_random", outputs="Out", uses=None, lod="")
def truncated_gaussian_random(
    *,
    shape: Sequence[int],
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: int = 5,
    device: torch.device,
    random: Random,
) -> Tensor:
    """Normal numbers, those more than two standard deviations from the mean drawn again."""
    out = torch.empty(tuple(shape), dtype=to_torch(VarType(dtype)), device=device)
    if device.type == "meta":
        return out
    generator = random(seed)
    out.normal_(mean, std, generator=generator)
    for part in torch.split(out.view(-1), _PART):
        _draw_again(part, mean, std, generator)
    return out


def _draw_again(part: Tensor, mean: float, std: float, generator: torch.Generator | None) -> None:
    """Those of (N,) beyond two standard deviations, and no others, until there are none."""

    def beyond(values: Tensor) -> Tensor:
        return ((values < mean - 2 * std) | (values > mean + 2 * std)).nonzero().view(-1)

    places = beyond(part)
    while places.numel():
        drawn = part.new_empty(places.numel()).normal_(mean, std, generator=generator)
        part[places] = drawn
        places = places[beyond(drawn)]


@operator("uniform_random_batch_size_like", outputs="Out", uses=None, lod="")
def uniform_random_batch_size_like(
    Input: Tensor,
    *,
    shape: Sequence[int],
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    diag_num: int = 0,
    diag_step: int = 0,
    diag_val: float = 1.0,
    dtype: int = 5,
    random: Random,
) -> Tensor:
    """`uniform_random` of `shape`, one size of which is that of Input."""
    sizes = batch_shape(shape, Input, input_dim_idx, output_dim_idx)
    out = torch.empty(sizes, dtype=to_torch(VarType(dtype)), device=Input.device)
    return _uniform(out, min, max, random(seed), (diag_num, diag_step, diag_val))


@operator("gaussian_random_batch_size_like", outputs="Out", uses=None, lod="")
def gaussian_random_batch_size_like(
    Input: Tensor,
    *,
    shape: Sequence[int],
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: int = 5,
    random: Random,
) -> Tensor:
    """`gaussian_random` of `shape`, one size of which is that of Input."""
    sizes = batch_shape(shape, Input, input_dim_idx, output_dim_idx)
    out = torch.empty(sizes, dtype=to_torch(VarType(dtype)), device=Input.device)
    return out.normal_(mean, std, generator=random(seed))


@operator("randint", outputs="Out", uses=None, lod="")
def randint(
    ShapeTensor: Tensor | None = None,
    ShapeTensorList: list[Tensor] | None = None,
    *,
    shape: Longs = (),
    low: int,
    high: int,
    dtype: int = 3,
    seed: int = 0,
    device: torch.device,
    random: Random,
) -> Tensor:
    """Integers of [low, high), all equally likely."""
    out = _empty(shape, ShapeTensor, ShapeTensorList, dtype, device)
    return out.random_(low, high, generator=random(seed))
