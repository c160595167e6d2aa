"""Operators that draw random numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.dtypes import VarType, to_torch
from refluid.ops.registry import operator
from refluid.ops.signature import Longs, Random


def _empty(
    shape: Longs,
    tensor: Tensor | None,
    several: list[Tensor] | None,
    dtype: int,
    device: torch.device,
) -> Tensor:
    if several:
        shape = [int(size) for size in several]
    elif tensor is not None:
        shape = tensor.flatten().tolist()
    return torch.empty(tuple(shape), dtype=to_torch(VarType(dtype)), device=device)


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
    out.uniform_(min, max, generator=random(seed))
    if diag_num:
        out.view(-1)[: diag_num * (diag_step + 1) : diag_step + 1] = diag_val
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
    torch.nn.init.trunc_normal_(
        out, mean, std, mean - 2 * std, mean + 2 * std, generator=random(seed)
    )
    return out
