"""What a predictor's inputs and outputs are read and written by."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import numpy as np
import torch

from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensor
from refluid.eager import VarBase
from refluid.fluid.inference.zero_copy import ZeroCopyTensor


class DataType(IntEnum):
    """Element types."""

    FLOAT32 = 0
    INT64 = 1
    INT32 = 2
    UINT8 = 3
    INT8 = 4
    FLOAT16 = 5
    BOOL = 6
    FLOAT64 = 7


class PlaceType(IntEnum):
    """Where values are."""

    UNK = -1
    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM = 3


_KINDS: Mapping[np.dtype[Any], DataType] = {np.dtype(one.name.lower()): one for one in DataType}


def _kind_of(dtype: np.dtype[Any]) -> DataType:
    if dtype not in _KINDS:
        known = ", ".join(map(str, _KINDS))
        raise EnforceNotMet(f"predictors know {known}, not {dtype}; convert it by `astype`")
    return _KINDS[dtype]


def get_num_bytes_of_data_type(dtype: DataType) -> int:
    """Bytes of an element."""
    return np.dtype(dtype.name.lower()).itemsize


class Tensor(ZeroCopyTensor):
    """An input (`copy_from_cpu`, `share_external_data`) or output (`copy_to_cpu`)."""

    _kind_of = staticmethod(_kind_of)

    def copy_from_cpu(self, data: Any) -> None:
        """Copies an array; TypeError for anything else."""
        if not isinstance(data, np.ndarray):
            raise TypeError(
                f"In copy_from_cpu, we only support numpy ndarray data type, not {type(data)}"
            )
        super().copy_from_cpu(data)

    def share_external_data(self, data: Any) -> None:
        """Takes the values of a tensor without a copy where it lies on the predictor's device.

        TypeError for what is neither a tensor nor a LoDTensor, EnforceNotMet for an output.
        """
        if not self._is_input:
            raise EnforceNotMet(f"{self._name} is an output; the predictor writes it")
        if isinstance(data, VarBase):
            value = data.tensor.detach()
        elif isinstance(data, LoDTensor):
            value = torch.as_tensor(np.asarray(data))
            self.set_lod(data.lod())
        else:
            raise TypeError(
                "In share_external_data, we only support Tensor and LoDTensor, "
                f"not {type(data).__name__}"
            )
        self._value, self._shape = value.to(self._device), None
