"""oneDNN's products of many sizes, computed with few.

For each shape oneDNN writes code and keeps it: half a megabyte and more, in pieces that lie between
the tensors of a step. Batches of sequences have another number of rows each time. After the first
few sizes of a product the others are rounded, to one of eight between a power of two and the next.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

# RoundedSizes of one product that are computed as they are, and shapes of all products together.
EXACT, MOST = 4, 256
# RoundedSizes are multiples of it, or of the eighth of a power of two that is greater.
_STEP = 8

Multiply = Callable[[Tensor, Tensor], Tensor]


class RoundedSizes:
    """Which shapes are computed as they are: what was once stays so, and gives equal numbers.

    active: whether others are rounded.
    """

    def __init__(self) -> None:
        self.active = True
        self._exact: set[tuple[int, int, int]] = set()
        # By what a product has in common with others: the sizes that it had besides.
        self._rows: dict[tuple[int, int], set[int]] = {}
        self._inner: dict[tuple[int, int], set[int]] = {}

    def which(self, rows: int, inner: int, columns: int) -> str:
        """Of (rows, inner) x (inner, columns): exact, or the size to be rounded: rows, inner.

        "" where there are too many shapes, whichever of their sizes varies.
        """
        shape = rows, inner, columns
        if not self.active or shape in self._exact:
            return "exact"
        if self._varies(self._rows, (inner, columns), rows):
            return "rows"
        if self._varies(self._inner, (rows, columns), inner):
            return "inner"
        if len(self._exact) >= MOST:
            return ""
        self._exact.add(shape)
        self._rows.setdefault((inner, columns), set()).add(rows)
        self._inner.setdefault((rows, columns), set()).add(inner)
        return "exact"

    @staticmethod
    def _varies(known: dict[tuple[int, int], set[int]], key: tuple[int, int], size: int) -> bool:
        sizes = known.get(key)
        return sizes is not None and len(sizes) >= EXACT and size not in sizes


sizes = RoundedSizes()


def multiply_sized(how: str, a: Tensor, b: Tensor, ours: Multiply, torchs: Multiply) -> Tensor:
    """The product of a (m, k) and b (k, n) by `ours`, of a size that is rounded as `how` says.

    What is left at the end is computed by `torchs`.
    """
    if how == "rows":
        return _with_rounded_rows(a, b, ours, torchs)
    return _with_rounded_inner(a, b, ours, torchs) if how == "inner" else ours(a, b)


def _with_rounded_rows(a: Tensor, b: Tensor, ours: Multiply, torchs: Multiply) -> Tensor:
    rows = len(a)
    most = _down(rows)
    if most == rows:
        return ours(a, b)
    if a.shape[1] <= b.shape[1]:
        # The smaller matrix is copied, with rows after it whose results nobody sees.
        return ours(pad(a, (0, 0, 0, _up(rows) - rows)), b)[:rows]
    return torch.cat((ours(_whole(a[:most]), b), torchs(a[most:], b)))


def _with_rounded_inner(a: Tensor, b: Tensor, ours: Multiply, torchs: Multiply) -> Tensor:
    inner = len(b)
    most = _down(inner)
    if most == inner:
        return ours(a, b)
    return ours(_whole(a[:, :most]), _whole(b[:most])).add_(torchs(a[:, most:], b[most:]))


def _whole(matrix: Tensor) -> Tensor:
    """A part of a matrix, which oneDNN would multiply slowly, as one of its own."""
    if matrix.is_contiguous() or matrix.t().is_contiguous():
        return matrix
    return matrix.contiguous()


def _down(size: int) -> int:
    return size // _step(size) * _step(size)


def _up(size: int) -> int:
    return -(-size // _step(size)) * _step(size)


def _step(size: int) -> int:
    """Between the powers of two around a size there are eight steps."""
    return max(_STEP, 1 << (size.bit_length() - 4))
