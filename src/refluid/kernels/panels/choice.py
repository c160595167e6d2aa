"""Which products are by panels: those that are faster so on this processor, found out by trying."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.faster import GAIN, is_faster
from refluid.kernels.onednn import linear
from refluid.kernels.panels.product import laid_product, lay_panels, panel_product
from refluid.kernels.processor import (
    LARGE_FACTOR,
    LARGE_PRODUCT,
    SLIGHTLY,
    apart,
    onednn_speed,
    shortest,
    vector_bits,
)

# Rows and columns from which a large product may be by panels: laying the left factor of one with
# fewer columns takes as long as what is gained.
ROWS, COLUMNS = 64, 512
# Products of two to so many rows take a right factor that was laid before, where that serves so
# many of them. Of one row torch's are faster: a tile has four at least.
FEW_ROWS, USES = 64, 6
# Where one product takes about as long by both, others needn't: those of so many numbers in all are
# tried each, for so many sizes.
_ABOUT, _TRIED, _MOST = (0.85, 1.15), 2**23, 256
# Of more rows than few, a right factor of at most so many numbers is laid: another copy of a large
# one would take memory. As many of the products as this are tried together.
_LAID, _TOGETHER = 2**20, 4
# What is measured, rows, inner size and columns, and how often.
_ONE, _REPEATED = ((256, 512, 1024), 24), ((24, 512, 1024), 32)


class PanelSpeed:
    """How many times as fast as torch's a kind of products by panels is; 0 where it can't be.

    told: instead of what would be measured.
    """

    def __init__(self, measure: Callable[[], float]) -> None:
        self.told: float | None = None
        self._measure = measure
        self._lock = threading.Lock()
        self._measured: float | None = None

    def __call__(self) -> float:
        if self.told is not None:
            return self.told
        if self._measured is None:
            with self._lock:
                if self._measured is None:
                    known, threads = vector_bits(), torch.get_num_threads()
                    self._measured = apart(self._measure, threads) if known else 0.0
        return self._measured


# Of one product, whose factors are laid for it; of products of few rows whose right factor was laid
# before.
of_one = PanelSpeed(lambda: _speed(*_ONE, _laid_for_one))
of_repeated = PanelSpeed(lambda: _speed(*_REPEATED, _laid_before))


# By threads, sizes and how the factors lie: whether such a product is faster so.
_known: dict[tuple[int, ...], bool] = {}


def pays(rows: int, inner: int, columns: int, left: int = 0, right: int = 0) -> bool:
    """Whether a product (rows, inner) · (inner, columns) of float32 on the CPU is faster so.

    left, right: 1 where the numbers of a factor's columns lie side by side, 0 where those of its
    rows do.
    """
    if rows < ROWS or columns < COLUMNS or rows * inner * columns < LARGE_PRODUCT:
        return False
    speed, numbers = of_one(), rows * inner + inner * columns + rows * columns
    least, most = _ABOUT
    if of_one.told is not None or not least <= speed < most or numbers > _TRIED:
        return speed >= GAIN
    return _tried(rows, inner, columns, left, right, 1, speed >= GAIN)


def pays_shared(
    rows: int, inner: int, columns: int, times: int, left: int = 0, right: int = 0
) -> bool:
    """Whether so many products by one right factor are, which is laid for all of them: of few rows,
    or of more that are a large product together, as the parts of a left factor."""
    if rows <= FEW_ROWS:
        return pays_repeated(rows, inner, columns, times)
    if times < 2 or columns < COLUMNS or times * rows * inner * columns < LARGE_PRODUCT:
        return False
    if of_one.told is not None or not vector_bits() or inner * columns > _LAID:
        return (of_one.told or 0.0) >= GAIN
    return _tried(rows, inner, columns, left, right, min(times, _TOGETHER), False)


def _tried(
    rows: int, inner: int, columns: int, left: int, right: int, times: int, otherwise: bool
) -> bool:
    """Whether so many products of that size are faster so, as was found out once; otherwise: where
    too many were."""
    threads = torch.get_num_threads()
    # Of other numbers of rows, up to twice as many, it is the same.
    size = threads, rows.bit_length(), inner, columns, left, right, times
    if size not in _known:
        if len(_known) >= _MOST:
            return otherwise
        ways = partial(_is_faster, rows, inner, columns, left, right, times)
        _known[size] = bool(apart(ways, threads))
    return _known[size]


def _is_faster(rows: int, inner: int, columns: int, left: int, right: int, times: int = 1) -> float:
    """1 where it is faster than by that library of torch's which would compute it, else 0."""
    a, b = _lying(rows, inner, left), _lying(inner, columns, right)
    usual: Callable[..., Any] = _by_onednn if onednn_speed(rows) >= SLIGHTLY else torch.mm
    ours: Callable[..., Any] = panel_product
    if times > 1:
        ours, usual = partial(_by_one_right_factor, times), partial(_again, times, usual)
    ours(a, b)
    return float(is_faster(ours, usual, (a, b)))


def _by_one_right_factor(times: int, a: Tensor, b: Tensor) -> None:
    panels = lay_panels(b)
    _again(times, laid_product, a, b, panels)


def _again(times: int, way: Callable[..., Tensor], *given: Tensor) -> None:
    for _ in range(times):
        way(*given)


def _lying(rows: int, columns: int, turned: int) -> Tensor:
    return torch.rand(columns, rows).t() if turned else torch.rand(rows, columns)


def _by_onednn(a: Tensor, b: Tensor) -> Tensor:
    assert linear is not None
    return linear(a, b.t(), None, "none", [], "")


def pays_repeated(rows: int, inner: int, columns: int, times: int) -> bool:
    """Whether so many products by one right factor are, which is laid for all of them."""
    if not 1 < rows <= FEW_ROWS or inner * columns < LARGE_FACTOR or times < USES:
        return False
    return of_repeated() >= GAIN


def _laid_for_one(a: Tensor, b: Tensor) -> Callable[[], object]:
    return partial(panel_product, a, b)


def _laid_before(a: Tensor, b: Tensor) -> Callable[[], object]:
    return partial(laid_product, a, b, lay_panels(b))


def _speed(
    sizes: tuple[int, int, int], times: int, lay: Callable[[Tensor, Tensor], Callable[[], object]]
) -> float:
    """How many times as fast as the faster one of torch's libraries ours is."""
    rows, inner, columns = sizes
    a, b = torch.rand(rows, inner), torch.rand(inner, columns)
    clock = time.perf_counter if torch.get_num_threads() > 1 else time.thread_time
    ways = [partial(torch.mm, a, b)]
    if linear is not None:
        ways.append(partial(_by_onednn, a, b))
    ours, found = lay(a, b), list[float]()
    for way in ways:
        mine, its = shortest(ours, way, clock, times)
        found.append(its / mine)
    return min(found)
