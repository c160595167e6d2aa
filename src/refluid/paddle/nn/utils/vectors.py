"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from refluid.ir.variable import Variable
from refluid.paddle.tensor.manipulation import concat, reshape


def parameters_to_vector(parameters: Iterable[Any], name: str | None = None) -> Variable:
    """The elements of all, one after the other."""
    return concat([reshape(one, [-1]) for one in parameters], 0, name)


def vector_to_parameters(vec: Any, parameters: Iterable[Any], name: str | None = None) -> None:
    """Sets parameters to the parts of a vector, in their order."""
    start, values = 0, vec.tensor.detach()
    with torch.no_grad():
        for one in parameters:
            own = one.tensor
            own.copy_(values[start : start + own.numel()].reshape(own.shape))
            start += own.numel()
