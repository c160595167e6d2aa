"""Products of matrices by panels, as operators of torch's."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import local
from typing import Any, NamedTuple

import torch
from torch import Tensor

from refluid.kernels.panels import loops
from refluid.kernels.panels.tiles import tile_sizes
from refluid.kernels.teams import team_size

# Numbers of each line that are multiplied at a time at most, and of all rows of the left factor.
_DEPTH, _LEFT = 1024, 2**20
# Panels of the right factor that a thread lays at once.
_PANELS = 2
# The parts that a thread takes of a right factor in panels.
_PARTS = 6


@cache
def _low(rows: int) -> tuple[int, int]:
    """Number and height of the low tiles by which so many rows take the fewest steps, each of which
    takes as long as a row more."""
    numbered = enumerate(tile_sizes().low)
    return min(numbered, key=lambda one: -(-rows // one[1]) * (one[1] + 1))


def _part(inner: int) -> int:
    """How many numbers of each line are multiplied at a time."""
    return -(-inner // -(-inner // _DEPTH))


def lies_as_factor(rows: int, columns: int, down: int, right: int) -> bool:
    """Whether the numbers of the rows, or of the columns, of a matrix with these strides lie side
    by side, without overlaps."""
    return (right == 1 and down >= columns) or (down == 1 and right >= rows)


def _laid_well(matrix: Tensor) -> Tensor:
    """The matrix, or a copy of it that `lies_as_factor`."""
    return matrix if lies_as_factor(*matrix.shape, *matrix.stride()) else matrix.contiguous()


def shape_of(lines: Tensor) -> tuple[int, int, int, int]:
    """Of a matrix whose rows are the lines of a factor, as `loops.py` takes it."""
    (count, inner), (down, right) = lines.shape, lines.stride()
    return (count, inner, down, 0) if right == 1 and down >= inner else (count, inner, right, 1)


class _PanelMemory(local):
    """Memory for panels that a thread keeps from product to product: freed and asked for again it
    would divide the heap between a step's tensors."""

    numbers = torch.empty(0, dtype=torch.float32)

    def of(self, count: int) -> Tensor:
        """So many numbers at least."""
        if self.numbers.numel() < count:
            self.numbers = torch.empty(count, dtype=torch.float32)
        return self.numbers


_kept = _PanelMemory()


class Working(NamedTuple):
    """Memory that a product needs meanwhile: counters, panels of a factor, scratch of threads."""

    counters: Tensor
    numbers: Tensor
    panels: int
    scratch: int

    @classmethod
    def of(cls, counters: int, panels: int, scratch: int) -> Working:
        numbers = _kept.of(panels + scratch)
        begin = numbers.data_ptr()
        return cls(torch.zeros(counters, dtype=torch.int64), numbers, begin, begin + 4 * panels)


def panel_product(a: Tensor, other: Tensor, bias: Tensor | None = None) -> Tensor:
    """a · other + bias: a (m, k), other (k, n), bias (n); float32 of the CPU."""
    found: Tensor = torch.ops.refluid.panel_product(a, other, bias)
    return found


def lay_panels(other: Tensor) -> Tensor:
    """The panels of a right factor (k, n), one after the other."""
    found: Tensor = torch.ops.refluid.lay_panels(other)
    return found


def laid_product(a: Tensor, other: Tensor, panels: Tensor, bias: Tensor | None = None) -> Tensor:
    """`panel_product` by what `lay_panels` made of the right factor."""
    found: Tensor = torch.ops.refluid.laid_product(a, other, panels, bias)
    return found


def _panel_product(a: Tensor, other: Tensor, bias: Tensor | None) -> Tensor:
    a, other = _laid_well(a), _laid_well(other)
    out = a.new_empty(len(a), other.shape[1])
    right = other.data_ptr(), shape_of(other.t())

    def multiply(counters: int, left: int, *given: Any) -> None:
        loops.multiply_left(counters, left, *right, *given)

    multiply_in_parts(a, out, multiply, bias)
    return out


def multiply_in_parts(
    a: Tensor, out: Tensor, multiply: Callable[..., None], bias: Tensor | None = None
) -> None:
    """out = a · other + bias: so many rows of a, and numbers of each, at a time as caches hold.

    a: one that `lies_as_factor`. out (m, n): its numbers lie side by side. multiply: multiplies
    such a part of it, in panels, by the other factor; given as `loops.multiply_left` is, but for
    that one.
    """
    (rows, inner), columns, sizes = a.shape, out.shape[1], tile_sizes()
    if not (rows and inner and columns):
        (out.zero_() if bias is None else out.copy_(bias))
        return
    width, height, depth = sizes.width, sizes.height, _part(inner)
    together = max(1, min(_PANELS, columns // (width * team_size())))
    pieces = -(-inner // depth)
    at_once = min(rows, max(1, _LEFT // depth // height) * height)
    panels = -(-at_once // height) * height * depth
    blocks, scratch = -(-rows // at_once), team_size() * together * width * depth
    working = Working.of(3 * pieces * blocks, panels, scratch)
    counters, across = working.counters.data_ptr(), shape_of(a)
    added = out if bias is None else bias
    for row in range(0, rows, at_once):
        count = min(at_once, rows - row)
        left = (count, *across[1:])
        begin = a.data_ptr() + 4 * row * (1 if across[3] else across[2])
        place = out.data_ptr() + 4 * row * columns
        for first in range(0, inner, depth):
            deep = min(depth, inner - first)
            loops.lay_panels(counters, begin, left, (height, first, deep), working.panels)
            more = (place, columns, 1) if first else (added.data_ptr(), 0, int(bias is not None))
            size = height, width, together, first, deep
            result = place, columns, count, columns, *more
            multiply(counters + 8, working.panels, size, working.scratch, result)
            counters += 24


def _lay_panels(other: Tensor) -> Tensor:
    other = _laid_well(other)
    width, (inner, count) = tile_sizes().width, other.shape
    panels = other.new_empty(-(-count // width) * width * inner)
    if not panels.numel():
        return panels
    counter, size = torch.zeros(1, dtype=torch.int64), (width, 0, inner)
    shape = shape_of(other.t())
    loops.lay_panels(counter.data_ptr(), other.data_ptr(), shape, size, panels.data_ptr())
    return panels


def _laid_product(a: Tensor, other: Tensor, panels: Tensor, bias: Tensor | None) -> Tensor:
    out = a.new_empty(len(a), other.shape[1])
    multiply_laid(a, panels, out, bias)
    return out


def multiply_laid(a: Tensor, panels: Tensor, out: Tensor, bias: Tensor | None = None) -> None:
    """`laid_product` into a matrix (m, n), the numbers of whose rows lie side by side."""
    a = _laid_well(a)
    (rows, inner), columns, threads = a.shape, out.shape[1], team_size()
    if not (rows and inner and columns):
        (out.zero_() if bias is None else out.copy_(bias))
        return
    width, (kind, height) = tile_sizes().width, _low(rows)
    together = max(1, -(-columns // width) // (threads * _PARTS))
    working = Working.of(2, 0, threads * -(-rows // height) * height * inner)
    added = (0, 0, 0) if bias is None else (bias.data_ptr(), 0, 1)
    loops.multiply_right(
        working.counters.data_ptr(),
        a.data_ptr(),
        shape_of(a),
        panels.data_ptr(),
        (kind, height, width, together, inner, _part(inner)),
        working.scratch,
        (out.data_ptr(), out.stride(0), rows, columns, *added),
    )


if not hasattr(torch.ops.refluid, "panel_product"):  # they are there where this is loaded anew
    _library: Any = torch.library.Library("refluid", "FRAGMENT")  # type: ignore[no-untyped-call]
    _library.define("panel_product(Tensor a, Tensor other, Tensor? bias) -> Tensor")
    _library.define("lay_panels(Tensor other) -> Tensor")
    _library.define("laid_product(Tensor a, Tensor other, Tensor panels, Tensor? bias) -> Tensor")
    _library.impl("panel_product", _panel_product, "CPU")
    _library.impl("lay_panels", _lay_panels, "CPU")
    _library.impl("laid_product", _laid_product, "CPU")
