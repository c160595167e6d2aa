"""Elementwise arithmetic on lists of tensors, in one call for all of them.

Arguments are lists of equal length or one number for all; names that end in `_` overwrite the
tensors of the first. Others return new tensors, in a list or a tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.parts import part

# Tensors of fewer numbers aren't worth a pass of one's own (`one_pass.py`): caches hold them.
ENOUGH = 2**14

_one_pass: list[Callable[[], bool]] = [lambda: True]


def one_pass_if(wanted: Callable[[], bool]) -> None:
    """Updates pass over memory once, where they can, while this holds."""
    _one_pass[:] = [wanted]


def is_large(values: Any) -> bool:
    """Whether some of these may be worth a pass of their own, and that is wanted."""
    return any(one.numel() >= ENOUGH and one.is_cpu for one in values) and _one_pass[0]()


def _each(function: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    def run(values: Any, *others: Any, **named: Any) -> list[Tensor]:
        rows = (one if isinstance(one, list | tuple) else repeat(one) for one in others)
        return [function(*row, **named) for row in zip(values, *rows, strict=False)]

    return run


def _maximum_(one: Tensor, other: Tensor) -> Tensor:
    return torch.maximum(one, other, out=one)


abs = part("torch._foreach_abs", _each(torch.abs))
add = part("torch._foreach_add", _each(torch.add))
add_ = part("torch._foreach_add_", _each(Tensor.add_))
addcdiv_ = part("torch._foreach_addcdiv_", _each(Tensor.addcdiv_))
addcmul_ = part("torch._foreach_addcmul_", _each(Tensor.addcmul_))
div = part("torch._foreach_div", _each(torch.div))
div_ = part("torch._foreach_div_", _each(Tensor.div_))
maximum_ = part("torch._foreach_maximum_", _each(_maximum_))
mul = part("torch._foreach_mul", _each(torch.mul))
mul_ = part("torch._foreach_mul_", _each(Tensor.mul_))
norm = part("torch._foreach_norm", _each(torch.linalg.vector_norm))
pow = part("torch._foreach_pow", _each(torch.pow))
sqrt = part("torch._foreach_sqrt", _each(torch.sqrt))
sqrt_ = part("torch._foreach_sqrt_", _each(Tensor.sqrt_))
sub = part("torch._foreach_sub", _each(torch.sub))
sub_ = part("torch._foreach_sub_", _each(Tensor.sub_))
zero_ = part("torch._foreach_zero_", _each(Tensor.zero_))
