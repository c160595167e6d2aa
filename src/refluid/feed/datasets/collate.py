"""`default_collate_fn`: a batch of a list of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from refluid.core.values import LoDTensor


def default_collate_fn(batch: Sequence[Any]) -> list[npt.NDArray[Any]]:
    """One array per field of the samples: the fields of all samples stacked.

    A sample is a tuple or list of arrays and numbers, or one of these alone. Raises ValueError
    where samples have different numbers of fields, or a field has different shapes.
    """
    rows = [sample if isinstance(sample, list | tuple) else (sample,) for sample in batch]
    counts = {len(row) for row in rows}
    if len(counts) != 1:
        raise ValueError(f"the samples of a batch have different numbers of fields: {counts}")
    return [_stack(place, field) for place, field in enumerate(zip(*rows, strict=True))]


def _stack(place: int, values: Sequence[Any]) -> npt.NDArray[Any]:
    arrays = [
        np.asarray(value.tensor if isinstance(value, LoDTensor) else value) for value in values
    ]
    if len({array.shape for array in arrays}) > 1:
        shapes = sorted({array.shape for array in arrays})
        raise ValueError(
            f"field {place} of the samples has different shapes: {shapes[:4]}; pad them, or give "
            "the DataLoader a collate_fn"
        )
    return np.stack(arrays)
