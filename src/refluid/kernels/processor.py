"""What this processor is good at, where that decides between kernels: found out by trying."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache, partial

import torch

from refluid.kernels.onednn import linear

# The products that are compared, of few rows and of many: rows, inner size and columns; and how
# often by each kernel. MKL's threads gain little where there are few rows. Short products and many
# turns, for others leave all cores alone only for moments: of long ones, six turns took the wrong
# kernel for good in a fifth of all processes that began beside another one.
_FEW_ROWS, _PRODUCTS, _TIMES = 32, ((24, 512, 1024), (256, 384, 384)), 32
# From which ratio on the difference is one of the kernels rather than of the moment: MKL takes
# twice as long as oneDNN where it doesn't use the 512 bits that the processor has, as long where it
# does, and with 256 bits between 1 and 1.2 times as long.
CLEARLY, SLIGHTLY = 1.4, 1.07
_SIZE = 256
# Multiplications of a product, numbers of a matrix by which several are, and multiplications of a
# gradient of filters, from which on loops of refluid's own may be faster (`panels/`): who has none
# so large needn't import them.
LARGE_PRODUCT, LARGE_FACTOR, LARGE_FILTERS = 2**28, 2**17, 2**25
# Rows, or numbers of each, that are few, and numbers of a matrix by which those are multiplied by
# loops of their own where they are faster (`few_rows/`).
FEW, MANY = 16, 2**19
_BITS = {"AVX512": 512, "AVX2": 256}
_lock = threading.Lock()
_speeds: dict[bool, float] = {}  # by whether there are many rows


@cache
def vector_bits() -> int:
    """The width of x86's registers that torch's kernels use here: the processor's, or what torch
    is told by `ATEN_CPU_CAPABILITY` if that is narrower; 0 for none and other processors."""
    return _BITS.get(torch.backends.cpu.get_cpu_capability(), 0)


def onednn_speed(rows: int = _FEW_ROWS + 1) -> float:
    """How many times as fast as MKL's oneDNN's matrix products of so many rows are here.

    Measured once for few rows and once for many, by as many threads as torch has then. 0 where one
    of them isn't there.
    """
    many = rows > _FEW_ROWS
    if many not in _speeds:
        with _lock:
            if many not in _speeds:
                _speeds[many] = (
                    _measured(many, torch.get_num_threads()) if both_are_there() else 0.0
                )
    return _speeds[many]


def both_are_there() -> bool:
    """Whether torch has both libraries here."""
    mkl, onednn = torch.backends.mkl, torch.backends.mkldnn
    return bool(linear and mkl.is_available() and onednn.is_available())  # type: ignore[no-untyped-call]


@cache
def bfloat16_multiplies_faster() -> bool:
    """Whether matrix products of bfloat16 are clearly faster than float32's here; measured once."""
    return apart(_measured_halves, 1) >= CLEARLY


def apart(measured: Callable[[], float], threads: int) -> float:
    """Measured by so many threads of torch's in a thread of its own, where nobody watches or
    records what is called. What fails is not faster."""
    found, own = list[float](), torch.get_num_threads()

    def measure() -> None:
        torch.set_num_threads(threads)
        try:
            with torch.no_grad():
                found.append(measured())
        finally:
            torch.set_num_threads(own)

    thread = threading.Thread(target=measure, name="refluid measuring")
    thread.start()
    thread.join()
    return found[0] if found else 0.0


def _measured(many: bool, threads: int) -> float:
    return apart(partial(_measured_product, *_PRODUCTS[many], threads), threads)


def _measured_product(rows: int, inner: int, columns: int, threads: int) -> float:
    assert linear is not None
    a, b = torch.rand(rows, inner), torch.rand(inner, columns)
    mkl, onednn = partial(torch.mm, a, b), partial(linear, a, b.t(), None, "none", [], "")
    # What one thread computes by itself is the same whatever others do to the clock.
    ours, theirs = shortest(onednn, mkl, time.perf_counter if threads > 1 else time.thread_time)
    return theirs / ours


def _measured_halves() -> float:
    a, b = torch.rand(_SIZE, _SIZE), torch.rand(_SIZE, _SIZE)
    half_a, half_b = a.bfloat16(), b.bfloat16()
    halves, floats = (lambda: torch.mm(half_a, half_b)), (lambda: torch.mm(a, b))
    ours, theirs = shortest(halves, floats, time.thread_time)
    return theirs / ours


def shortest(
    one: Callable[[], object],
    other: Callable[[], object],
    clock: Callable[[], float] = time.perf_counter,
    times: int = _TIMES,
) -> tuple[float, float]:
    """The shortest time of each, in turns: whatever else runs only adds to it. Seconds."""
    best = [float("inf"), float("inf")]
    for _ in range(times):
        for number, work in enumerate((one, other)):
            start = clock()
            work()
            best[number] = min(best[number], clock() - start)
    return best[0], best[1]
