"""Batches on their way: plain arrays with sequence lengths where they are made, tensors after.

Worker processes and generator threads handle `Column`s only, which cross process borders without
a copy. The training process makes tensors of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from refluid.core.arrays import as_array, plain
from refluid.core.values import Lod, LoDTensor

Array = npt.NDArray[Any]
Column = tuple[Array, Lod]
ReaderBatch = list[LoDTensor]


def as_column(value: Any, what: str = "a reader's batch") -> Column:
    """The array and offsets of what a user's generator gave: array, list or LoDTensor.

    TypeError, which names `what`, for anything that is no tensor.
    """
    if isinstance(value, LoDTensor):
        return np.asarray(value), value.lod()
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy(), []
    return plain(as_array(value, what), what), []


def owned(column: Column) -> Column:
    """The same, in memory that the user's generator can't change any more."""
    array, lod = column
    return np.array(array, order="C"), lod


def as_batch(columns: Sequence[Column]) -> ReaderBatch:
    """Tensors that share the memory of the arrays."""
    return [LoDTensor(_tensor(array), lod) for array, lod in columns]


def _tensor(array: Array) -> torch.Tensor:
    return torch.from_numpy(plain(array, "a reader's batch"))


def pin(batch: ReaderBatch) -> ReaderBatch:
    """The batch in memory that GPUs can copy from while the processor goes on."""
    return [LoDTensor(one.tensor.pin_memory(), one.lod()) for one in batch]
