"""Products of two matrices, by the fastest of the kernels that torch has for them.

On the CPU torch multiplies by MKL. oneDNN's products are faster on some processors, but cost more
to call; and of narrow results MKL computes the transpose faster, on every processor. Which one it
is depends on the processor and the shapes, and stays what it was for a shape, so that equal steps
give equal numbers. What autograd watches stays with MKL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.epilogues import ACTIVATE, activate_, add_relu
from refluid.kernels.onednn import linear
from refluid.kernels.packed import packed_weights
from refluid.kernels.processor import (
    CLEARLY,
    FEW,
    LARGE_FACTOR,
    LARGE_PRODUCT,
    MANY,
    SLIGHTLY,
    both_are_there,
    onednn_speed,
    vector_bits,
)
from refluid.kernels.rounded import multiply_sized, sizes
from refluid.kernels.watching import is_watched

# Multiplications from which oneDNN is worth its call, where it is clearly and slightly faster, and
# the narrowest matrices it is used for.
_LARGE, _LARGE_SLIGHTLY, _LEAST = 2**20, 2**22, 8
# A transposed first factor is copied first, by one thread: an element takes as long as a thread
# takes for so many multiplications.
_COPIED = 45
# Multiplications from which a gradient that Python computes by oneDNN is faster than autograd's.
_WORTH_PYTHON = 2**23
# How many times as fast oneDNN is taken to be, by bits of registers, where nothing may be timed.
_TAKEN = {512: 2.0}
# Results that are narrower, of so many multiplications, are computed as their transpose.
_NARROW, _ENOUGH, _DEEP = 12, 2**18, 32

_none: list[Any] = []


class ProductLimits:
    """told: multiplications from which products are oneDNN's; negative: as was measured. panels:
    whether products may be by loops of refluid's own. repeatable: whether a run has to give what
    another one gave, so that nothing may change while it trains."""

    def __init__(self) -> None:
        self.told = -1
        self.panels = True
        self.repeatable = False

    def of(self, speed: float) -> float:
        """The number that holds where oneDNN is so many times as fast; infinite for none."""
        if self.told >= 0 and speed:
            return self.told
        if speed < SLIGHTLY:
            return math.inf
        return _LARGE if speed >= CLEARLY else _LARGE_SLIGHTLY

    def repay_copy(self, speed: float, columns: int) -> bool:
        """Whether what oneDNN saves, so many times as fast, is more than copying the first factor,
        each of whose elements is multiplied by so many columns."""
        saved = columns * (1 - 1 / speed) / torch.get_num_threads()
        return self.told >= 0 or saved > _COPIED


limits = ProductLimits()


def torch_derives() -> float:
    """How many multiplications products may have that, with their gradients, are torch's."""
    return _WORTH_PYTHON if _speed() >= CLEARLY else math.inf


def _speed(*rows: int) -> float:
    """`onednn_speed`; where a run has to repeat another, which may measure something else, what
    follows from the width of registers: MKL uses not always all of 512 bits, but those of 256."""
    if not limits.repeatable:
        return onednn_speed(*rows)
    return _TAKEN.get(vector_bits(), 1.0) if both_are_there() else 0.0


def product(a: Tensor, b: Tensor) -> Tensor:
    """a · b of the matrices a (m, k) and b (k, n)."""
    few = _few(a, b)
    return usual_product(a, b) if few is None else few(a, b)


def _few(a: Tensor, b: Tensor, *, spans: bool = True) -> Any:
    """The function for products of few rows by a large matrix, or of two narrow factors, which
    span one; else None."""
    (rows, inner), columns = a.shape, b.shape[1]
    narrow = spans and 0 < inner <= FEW and rows * columns >= MANY
    if not (narrow or (0 < rows <= FEW and inner * columns >= MANY)) or not limits.panels:
        return None
    if a.dtype is not torch.float32 or b.dtype is not torch.float32 or not a.is_cpu:
        return None
    if limits.repeatable or _watched(a, b) or not vector_bits():
        return None
    from refluid.kernels.few_rows.product import function_for  # few programs have such

    return function_for(a, b, usual_product)


def usual_product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """a · b, or a · b + bias, by the fastest of torch's kernels or by panels."""
    if bias is not None:
        return _usual_affine(bias, a, b, "")
    kind = _kind(a, b)
    if not kind and packed_weights.within:
        found = packed_weights.product(a, b)
        if found is not None:
            return found
    if kind == "panels":
        return _by_panels(a, b)
    if kind == "narrow":
        return torch.mm(b.t().contiguous(), a.t()).t().contiguous()
    return multiply_sized(kind, a, b, _by_onednn, torch.mm) if kind else torch.mm(a, b)


def _by_panels(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    from refluid.kernels.panels.product import panel_product  # few programs have products so large

    return panel_product(a, b, bias)


def _by_onednn(a: Tensor, b: Tensor) -> Tensor:
    assert linear is not None
    return linear(a, b.t(), None, "none", _none, "")


def affine(bias: Tensor, a: Tensor, b: Tensor, activation: str = "") -> Tensor:
    """activation(a · b + bias): bias one number for each column; relu, tanh, sigmoid or none."""
    if bias.dim() == 1 and bias.dtype is a.dtype:
        few = _few(a, b, spans=False)
        if few is not None:
            return activate_(few(a, b, bias), activation)
    return _usual_affine(bias, a, b, activation)


def _usual_affine(bias: Tensor, a: Tensor, b: Tensor, activation: str) -> Tensor:
    kind = _kind(a, b)
    flat = bias.dim() == 1 and bias.dtype is a.dtype
    if kind == "panels" and flat and bias.is_contiguous():
        return activate_(_by_panels(a, b, bias), activation)
    if kind in ("exact", "rows") and flat:
        fused = "relu" if activation == "relu" else "none"

        def ours(a: Tensor, b: Tensor) -> Tensor:
            assert linear is not None
            out = linear(a, b.t(), bias, fused, _none, "")
            return out if fused == "relu" else activate_(out, activation)

        def torchs(a: Tensor, b: Tensor) -> Tensor:
            return _affine_by_torch(bias, a, b, activation)

        return multiply_sized(kind, a, b, ours, torchs)
    if kind in ("narrow", "inner") and flat:
        return activate_(product(a, b).add_(bias), activation)
    return _affine_by_torch(bias, a, b, activation)


def _affine_by_torch(bias: Tensor, a: Tensor, b: Tensor, activation: str) -> Tensor:
    """By torch: the bias with relu in one pass after the product. `addmm` takes a pass more, which
    writes the bias down for the product to add to."""
    if activation != "relu" or not a.is_cpu or a.dtype is not torch.float32 or _watched(bias, a, b):
        return activate_(torch.addmm(bias, a, b), activation)
    out = torch.mm(a, b)
    return add_relu(out, bias, out)


def _watched(*tensors: Tensor) -> bool:
    """Whether autograd is to know what is computed of these."""
    return torch.is_grad_enabled() and any(one.requires_grad for one in tensors)


def torchs_affine(activation: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """`affine` of (a, b, bias) where autograd watches: by torch."""
    addmm, activate = torch.addmm, ACTIVATE.get(activation)
    if activate is None:
        return lambda a, b, bias: addmm(bias, a, b)
    return lambda a, b, bias: activate(addmm(bias, a, b))


def add_product_(out: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """out += a · b."""
    kind = _few(a, b) or _kind(a, b)
    return out.add_(product(a, b)) if kind else out.addmm_(a, b)


def product_into(out: Tensor, a: Tensor, b: Tensor) -> None:
    """out = a · b."""
    if _few(a, b) or _kind(a, b):
        out.copy_(product(a, b))
    else:
        torch.mm(a, b, out=out)


def repeated(b: Tensor, rows: int, times: int) -> Callable[[Tensor, Tensor], None]:
    """(out, a): out = a · b, for so many products by one matrix, of up to so many rows each.

    b isn't written to between them; out lies row by row.
    """
    panels = _laid(b, rows, times)
    if panels is None:
        return lambda out, a: product_into(out, a, b)
    from refluid.kernels.panels.product import multiply_laid  # few programs have such

    return lambda out, a: multiply_laid(a, panels, out)


def of_parts(b: Tensor, rows: int, times: int) -> Callable[[Tensor], Tensor]:
    """a · b of a, for so many products by one matrix, of about so many rows each, whose columns lie
    side by side: those of a transposed matrix. b isn't written to between them.
    """
    panels = _laid(b, rows, times, turned=1)
    if panels is None:
        return lambda a: product(a, b)
    from refluid.kernels.panels.product import laid_product  # few programs have such

    return lambda a: laid_product(a, b, panels)


def _laid(b: Tensor, rows: int, times: int, turned: int = 0) -> Tensor | None:
    """Panels of the right factor of so many products, where those are faster by them."""
    if not limits.panels or b.numel() < LARGE_FACTOR or not b.is_cpu:
        return None
    if b.dtype is not torch.float32 or len(b) <= FEW:  # products that span one have loops, too
        return None
    from refluid.kernels.panels.choice import pays_shared  # few programs have such
    from refluid.kernels.panels.product import lay_panels

    inner, columns = b.shape
    faster = pays_shared(rows, inner, columns, times, turned, int(b.stride(1) != 1))
    return lay_panels(b) if faster else None


def _panels_pay(a: Tensor, b: Tensor) -> bool:
    from refluid.kernels.panels.choice import pays  # few programs have products so large
    from refluid.kernels.panels.product import lies_as_factor

    if is_watched() or not all(lies_as_factor(*one.shape, *one.stride()) for one in (a, b)):
        return False
    rows, inner = a.shape
    return pays(rows, inner, b.shape[1], int(a.stride(1) != 1), int(b.stride(1) != 1))


def _kind(a: Tensor, b: Tensor) -> str:
    """How it is computed: by panels, narrow, by oneDNN as `RoundedSizes.which` says, or "": by
    torch."""
    rows, inner = a.shape
    columns = b.shape[1]
    size = rows * inner * columns
    if size < _ENOUGH or a.dtype is not torch.float32 or b.dtype is not torch.float32:
        return ""
    if a.device.type != "cpu":
        return ""
    if _watched(a, b):
        return ""
    if size >= LARGE_PRODUCT and limits.panels and _panels_pay(a, b):
        return "panels"
    speed = _speed(rows)
    if speed and 1 < columns < _NARROW and rows > _NARROW and inner >= _DEEP:
        return "narrow"
    large = limits.of(speed)
    if size < large or min(rows, columns, inner) < _LEAST:
        return ""
    if not torch.backends.mkldnn.enabled:
        return ""
    if b.stride() not in ((columns, 1), (1, inner)):
        return ""  # oneDNN multiplies by parts of a matrix 1,000 times slower
    if a.stride(1) != 1 and not limits.repay_copy(speed, columns):
        return ""
    return sizes.which(rows, inner, columns)
