"""Tensors as arrays of the user's, and the other way round."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from refluid.core.fetched import fetched
from refluid.core.places import Place


def copied(value: Tensor) -> npt.NDArray[Any]:
    """A copy of the elements; bfloat16, which NumPy hasn't got, as float32."""
    if value.dtype is torch.bfloat16:
        value = value.float()
    if not value.is_cpu:
        return cast("npt.NDArray[Any]", fetched(value.numpy(force=True)))
    # What is to be computed when it is read, as conjugates, torch gives only when forced.
    later = value.is_conj() or value.is_neg()
    found: np.ndarray[Any, Any] = value.numpy(force=True) if later else value.detach().numpy()
    return cast("npt.NDArray[Any]", fetched(found.copy()))


def as_given(value: npt.NDArray[Any], place: Place | None, zero_copy: bool) -> Tensor:
    """The tensor of an array, on a place; in the array's own memory where that may be."""
    made = torch.from_numpy(value if zero_copy else value.copy())
    return made if place is None else made.to(place.device)
