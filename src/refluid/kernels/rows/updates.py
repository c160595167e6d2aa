"""Updates of tables on the CPU that touch the rows of a sparse gradient and no others."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows

_NUMBERS: dict[torch.dtype, Any] = {torch.float32: np.float32, torch.float64: np.float64}


def takes(grad: SelectedRows, *kept: Tensor) -> bool:
    """Whether the updates below take this gradient and the tensors that it changes."""
    value = grad.value
    if value.dim() != 2 or value.dtype not in _NUMBERS or not value.is_cpu:
        return False
    rows, width = value.shape
    equal = all(one.shape == kept[0].shape for one in kept)
    return equal and rows == len(grad.index) and all(_is_like(one, value, width) for one in kept)


def _is_like(kept: Tensor, value: Tensor, width: int) -> bool:
    alike = kept.dtype is value.dtype and kept.is_cpu and kept.is_contiguous()
    return alike and kept.dim() == 2 and kept.shape[1] == width


@cache
def kernel() -> ModuleType:
    """The compiled loops; imported late, for they load the compiler, which few programs need."""
    from refluid.kernels.rows import loops

    return loops


def descend_rows(param: Tensor, grad: SelectedRows, rate: float) -> None:
    """param[row] -= rate * value for each row of the gradient, in place.

    Raises EnforceNotMet where the parameter lacks a row.
    """
    number = _NUMBERS[param.dtype](rate)
    _done(kernel().descend_rows(param.numpy(), *_arrays(grad), number), grad, param)


def adam_rows(
    param: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    grad: SelectedRows,
    rate: float,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """Adam with `rate` as it is on the gradient's rows, equal ones added up first, in place.

    Raises EnforceNotMet where the parameter lacks a row.
    """
    number = _NUMBERS[param.dtype]
    one, two = betas
    numbers = (*map(number, (rate, one, two, 1.0 - one, 1.0 - two, epsilon)),)
    kept = param.numpy(), moment1.numpy(), moment2.numpy()
    _done(kernel().adam_rows(*kept, *_arrays(grad), numbers), grad, param)


def _arrays(grad: SelectedRows) -> tuple[Any, Any]:
    return grad.index.contiguous().numpy(), grad.value.contiguous().numpy()


def _done(well: bool, grad: SelectedRows, param: Tensor) -> None:
    if well:
        return
    lowest, highest = int(grad.index.min()), int(grad.index.max())
    raise EnforceNotMet(
        f"the gradient has rows {lowest}..{highest}, but the parameter has {param.shape[0]} rows"
    )
