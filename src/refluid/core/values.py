"""The values of variables that are more than a tensor, gathered under one name."""

from __future__ import annotations

from typing import Any

import torch

from refluid.core.lod import Lod, lengths_to_offsets, lod_error, offsets_to_lengths
from refluid.core.lod_tensor import LoDTensor, LoDTensorArray
from refluid.core.selected_rows import SelectedRows

__all__ = [
    "LoDTensor",
    "LoDTensorArray",
    "Lod",
    "SelectedRows",
    "as_lod_tensor",
    "from_dlpack",
    "lengths_to_offsets",
    "lod_error",
    "offsets_to_lengths",
]


def as_lod_tensor(value: LoDTensor | torch.Tensor) -> LoDTensor:
    """`value` as a LoDTensor, sharing its data."""
    return value if isinstance(value, LoDTensor) else LoDTensor(value)


def from_dlpack(capsule: Any) -> LoDTensor:
    """A DLPack capsule's data, whose memory is shared."""
    return LoDTensor(torch.utils.dlpack.from_dlpack(capsule))
