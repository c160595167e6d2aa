"""Products of half-precision rows by large float32 weights, as operators of torch's.

Weights cast as a whole are written to memory and read again for the sake of a few rows: few are
multiplied in float32 by the weights as they are; more by a tile of them at a time, cast while it is
in the cache. The gradient of the weights is float32 as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.processor import bfloat16_multiplies_faster
from refluid.kernels.products import affine, limits, product

# Rows that are few; numbers of a tile that is cast, and of one of a gradient; columns at least.
_FEW, _TILE, _GRADIENT, _LEAST = 32, 2**20, 2**22, 64
# Sums below are finite, as they are rounded.
_SURELY = 1e38


def mixed_product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """a · b + bias: a (m, k) and bias (n) of a half type, as the result is; b (k, n) float32."""
    if not a.is_cpu:
        return _cast(a, b, bias)
    found: Tensor = torch.ops.refluid.mixed_product(a, b, bias)
    return found


def mixed_gradient(a: Tensor, grad: Tensor) -> Tensor:
    """aᵀ · grad in float32: a (m, k) and grad (m, n) of a half type."""
    if not a.is_cpu:
        return torch.mm(a.t(), grad).float()
    found: Tensor = torch.ops.refluid.mixed_gradient(a, grad)
    return found


def has_infinite(a: Tensor, grad: Tensor) -> Tensor:
    """Whether an element of aᵀ · grad is inf or nan, bool [1]; as for `mixed_gradient`."""
    if not a.is_cpu:
        return ~mixed_gradient(a, grad).isfinite().all().view(1)
    found: Tensor = torch.ops.refluid.has_infinite(a, grad)
    return found


def _cast(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    half = b.to(a.dtype)
    return torch.mm(a, half) if bias is None else torch.addmm(bias, a, half)


def _in_float32(a: Tensor) -> bool:
    """Whether these rows are few, or this processor has nothing faster for halves."""
    if len(a) <= _FEW or a.dtype is not torch.bfloat16:
        return True
    # What is found out by trying may be something else in another run.
    return not (limits.repeatable or bfloat16_multiplies_faster())


def _parts(size: int, other: int, numbers: int) -> Iterator[slice]:
    step = max(_LEAST, numbers // max(other, 1))
    return (slice(begin, begin + step) for begin in range(0, size, step))


def _multiply(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    if not limits.panels:
        return _cast(a, b, bias)
    if _in_float32(a):
        a32 = a.float()
        out = product(a32, b) if bias is None else affine(bias.float(), a32, b)
        return out.to(a.dtype)
    out = a.new_empty(len(a), b.shape[1])
    for part in _parts(b.shape[1], len(b), _TILE):
        out[:, part] = _cast(a, b[:, part], None if bias is None else bias[part])
    return out


def _derive(a: Tensor, grad: Tensor) -> Tensor:
    if not limits.panels:
        return torch.mm(a.t(), grad).float()
    if _in_float32(a):
        return product(a.float().t(), grad.float())
    out = a.new_empty(a.shape[1], grad.shape[1], dtype=torch.float32)
    for part in _parts(a.shape[1], grad.shape[1], _GRADIENT):
        out[part] = torch.mm(a[:, part].t(), grad)
    return out


def _has_infinite(a: Tensor, grad: Tensor) -> Tensor:
    """From the greatest sizes, if they say so: sums of that many products can't be greater."""
    greatest = [float(one.abs().amax()) if one.numel() else 0.0 for one in (a, grad)]
    surely = _SURELY if limits.panels else min(_SURELY, torch.finfo(a.dtype).max / 4)
    if len(a) * greatest[0] * greatest[1] < surely:
        return torch.zeros(1, dtype=torch.bool)
    parts = _parts(a.shape[1], grad.shape[1], _TILE)
    return torch.tensor([not all(bool(_derive(a[:, one], grad).isfinite().all()) for one in parts)])


if not hasattr(torch.ops.refluid, "mixed_product"):  # they are there where this is loaded anew
    _library: Any = torch.library.Library("refluid", "FRAGMENT")  # type: ignore[no-untyped-call]
    _library.define("mixed_product(Tensor a, Tensor b, Tensor? bias) -> Tensor")
    _library.define("mixed_gradient(Tensor a, Tensor grad) -> Tensor")
    _library.define("has_infinite(Tensor a, Tensor grad) -> Tensor")
    _library.impl("has_infinite", _has_infinite, "CPU")
    _library.impl("mixed_product", _multiply, "CPU")
    _library.impl("mixed_gradient", _derive, "CPU")
