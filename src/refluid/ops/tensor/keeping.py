"""Where values live: one memory for many, places; and filled tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.dtypes import VarType, to_torch
from refluid.core.places import CPUPlace, CUDAPlace, Place
from refluid.ops.infer import no_inference
from refluid.ops.registry import operator
from refluid.ops.signature import AnyValue


@operator("fill", outputs="Out", uses=None, lod="")
def fill(
    *,
    value: Sequence[float],
    shape: Sequence[int],
    dtype: int = 5,
    force_cpu: bool = False,
    device: torch.device,
) -> Tensor:
    """A tensor of that shape with the values given, row by row."""
    where = torch.device("cpu") if force_cpu and device.type != "meta" else device
    kind = to_torch(VarType(dtype))
    if where.type == "meta":
        return torch.empty(tuple(shape), dtype=kind, device=where)
    return torch.tensor(list(value), dtype=torch.float64).to(where, kind).reshape(tuple(shape))


@operator("fill_zeros_like2", outputs="Out", uses=None)
def fill_zeros_like2(X: Tensor, *, dtype: int = 5) -> Tensor:
    """Zeros of the shape of X, of type `dtype`."""
    return torch.zeros_like(X, dtype=to_torch(VarType(dtype)))


@operator("coalesce_tensor", outputs="Output* FusedOutput", uses=None, lod="")
def coalesce_tensor(
    Input: list[Tensor],
    *,
    dtype: int,
    copy_data: bool = False,
    set_constant: bool = False,
    constant: float = 0.0,
    check_name: bool = False,
) -> tuple[list[Tensor], Tensor]:
    """Tensors of the shapes of Input that lie one after another in FusedOutput.

    They hold the values of Input with copy_data, `constant` with set_constant.
    """
    kind = to_torch(VarType(dtype))
    sizes = [one.numel() for one in Input]
    if copy_data:
        fused = torch.cat([one.reshape(-1) for one in Input]).to(kind)
    else:
        fused = Input[0].new_full((sum(sizes),), constant if set_constant else 0.0, dtype=kind)
    parts = torch.split(fused, sizes)
    return [part.view(one.shape) for part, one in zip(parts, Input, strict=True)], fused


@operator("delete_var", outputs="", uses=None, lod="", infer=no_inference)
def delete_var(X: list[Tensor]) -> None:
    """Nothing: a plan frees every value after its last use."""


@operator("get_places", outputs="Out", uses=None, lod="", infer=no_inference)
def get_places(*, device_count: int = 0, device_type: str = "AUTO") -> AnyValue:
    """The list of the machine's places: CUDA, CPU, or CUDA if there is any (AUTO).

    device_count: how many, 0 for all there are.
    """
    found = torch.cuda.device_count() if device_type != "CPU" else 0
    if (device_type == "AUTO" and not found) or device_type == "CPU":
        return [CPUPlace()] * max(device_count, 1)
    places: list[Place] = [CUDAPlace(number) for number in range(device_count or found)]
    return places
