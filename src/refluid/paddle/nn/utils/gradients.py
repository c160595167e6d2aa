"""Gradients of parameters made smaller, in place, before an optimizer takes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from refluid.core.selected_rows import SelectedRows
from refluid.eager import VarBase
from refluid.ir.variable import Variable

_ORDERS = (float("inf"), 0.0, 1.0, 2.0)


def _gradients(parameters: Any) -> list[torch.Tensor]:
    listed: Iterable[Any] = [parameters] if isinstance(parameters, Variable) else parameters
    found = [one.gradient_value for one in listed]
    return [one.value if isinstance(one, SelectedRows) else one for one in found if one is not None]


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> VarBase:
    """Scales the gradients of all so that their common norm is at most `max_norm`; the norm.

    norm_type: 0, 1, 2 or inf; ValueError for others. error_if_nonfinite: RuntimeError where the
    norm is inf or nan.
    """
    if norm_type not in _ORDERS:
        raise ValueError("norm_type only support [inf, 0, 1, 2]")
    found = _gradients(parameters)
    if not found:
        return VarBase(torch.zeros(1), stop_gradient=True)
    with torch.no_grad():
        sizes = torch.stack([torch.linalg.vector_norm(one.float(), norm_type) for one in found])
        total = torch.linalg.vector_norm(sizes, norm_type)
        if error_if_nonfinite and not bool(torch.isfinite(total)):
            raise RuntimeError(
                f"The total norm of {norm_type} order of the gradients from `parameters` is "
                "non-finite, so it cannot be clipped."
            )
        factor = torch.clamp(max_norm / (total + 1e-6), max=1.0)
        for one in found:
            one.mul_(factor)
    return VarBase(total.reshape(1), stop_gradient=True)


def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Cuts the elements of the gradients at `clip_value` and its negative."""
    with torch.no_grad():
        for one in _gradients(parameters):
            one.clamp_(-float(clip_value), float(clip_value))
