"""Products of few rows by a large matrix, and of two narrow factors, as operators of torch's.

Who reads a large matrix for the sake of a few rows waits for memory: the loops pass over it once,
row by row as it lies. Whether they are faster than torch's kernels is tried for each size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.faster import FasterWay
from refluid.kernels.few_rows import loops
from refluid.kernels.few_rows.writing import LINES, ROWS
from refluid.kernels.processor import FEW
from refluid.kernels.teams import team_size
from refluid.kernels.vectors import LANES

# Columns, or rows, that a thread takes at a time, and how many times it may; columns whose rows the
# nearest cache holds.
_COLUMNS, _ROWS, _PARTS, _BLOCK = 512, 32, 4, 2048


_usual: list[Callable[..., Tensor]] = [torch.mm]


def function_for(
    a: Tensor, b: Tensor, usual: Callable[..., Tensor]
) -> Callable[..., Tensor] | None:
    """The one of the two below that these are for; None where b lies otherwise.

    usual: computes them, of (a, b) or (a, b, bias), where loops of refluid's own aren't faster.
    """
    _usual[:] = [usual]
    (inner, columns), (down, right) = b.shape, b.stride()
    by_row = right == 1 and down >= columns
    if len(a) <= FEW:
        return few_rows_product if by_row or (down == 1 and right >= inner) else None
    return spanned_product if by_row else None


def few_rows_product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """a · b + bias: a (m, k) of few rows, b (k, n), bias (n); float32 of the CPU.

    The numbers of b's rows, or of its columns, lie side by side.
    """
    found: Tensor = torch.ops.refluid.few_rows_product(a, b, bias)
    return found


def spanned_product(a: Tensor, b: Tensor) -> Tensor:
    """a · b: a (m, k) of few columns, b (k, n), the numbers of whose rows lie side by side."""
    found: Tensor = torch.ops.refluid.spanned_product(a, b)
    return found


def by_rows(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    """`few_rows_product` by loops of refluid's own."""
    out = a.new_zeros(len(a), b.shape[1]) if bias is None else bias.repeat(len(a), 1)
    if b.stride(1) == 1:
        _add(a, b, out)
    else:
        _dot(a if a.stride(1) == 1 else a.contiguous(), b, out)
    return out


def _add(a: Tensor, b: Tensor, out: Tensor) -> None:
    (lines, inner), columns = a.shape, b.shape[1]
    whole, share = inner // ROWS * ROWS, -(-columns // (team_size() * _PARTS))
    part = max(_COLUMNS, -(-share // LANES) * LANES)
    counters = torch.zeros(2, dtype=torch.int64)
    sums = a.new_zeros(team_size() * lines * part)
    loops.add_products(
        counters.data_ptr(),
        (a.data_ptr(), a.stride(0), a.stride(1)),
        (b.data_ptr(), b.stride(0)),
        (out.data_ptr(), columns),
        (lines, whole, columns, part, part if lines <= LINES else _BLOCK),
        sums.data_ptr(),
    )
    if whole < inner:
        out.addmm_(a[:, whole:], b[whole:])


def _dot(a: Tensor, b: Tensor, out: Tensor) -> None:
    (lines, inner), columns = a.shape, b.shape[1]
    whole = columns // ROWS * ROWS
    counter = torch.zeros(1, dtype=torch.int64)
    loops.dot_products(
        counter.data_ptr(),
        (a.data_ptr(), a.stride(0)),
        (b.data_ptr(), b.stride(1)),
        (out.data_ptr(), columns, 1),
        (lines, whole, inner, _ROWS, inner if lines <= LINES else _BLOCK),
    )
    if whole < columns:
        out[:, whole:] += torch.mm(a, b[:, whole:])


def spanned(a: Tensor, b: Tensor) -> Tensor:
    """`spanned_product` by a loop of refluid's own."""
    (rows, lines), columns = a.shape, b.shape[1]
    out, whole = a.new_empty(rows, columns), rows // ROWS * ROWS
    counter = torch.zeros(1, dtype=torch.int64)
    loops.span_products(
        counter.data_ptr(),
        (a.data_ptr(), a.stride(1), a.stride(0)),
        (b.data_ptr(), b.stride(0)),
        (out.data_ptr(), columns),
        (lines, whole, columns, _ROWS),
    )
    if whole < rows:
        torch.mm(a[whole:], b, out=out[whole:])
    return out


few_rows_way, spanned_way = (
    FasterWay(ours, lambda *given: _usual[0](*given)) for ours in (by_rows, spanned)
)

if not hasattr(torch.ops.refluid, "few_rows_product"):  # they are there where this is loaded anew
    _library: Any = torch.library.Library("refluid", "FRAGMENT")  # type: ignore[no-untyped-call]
    _library.define("few_rows_product(Tensor a, Tensor b, Tensor? bias) -> Tensor")
    _library.define("spanned_product(Tensor a, Tensor b) -> Tensor")
    _library.impl("few_rows_product", few_rows_way, "CPU")
    _library.impl("spanned_product", spanned_way, "CPU")
