"""What this processor is good at, where that decides between kernels: found out by trying."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial

import torch

from refluid.kernels.onednn import linear

# Of the products that are compared: rows, inner size and columns; and how often by each.
_PRODUCTS, _TIMES = ((24, 512, 1024), (512, 256, 512)), 8
# From which ratio on the difference is one of the kernels rather than of the moment: MKL takes
# twice as long as oneDNN where it doesn't use the 512 bits that the processor has, as long where it
# does, and with 256 bits between 1 and 1.2 times as long.
CLEARLY, SLIGHTLY = 1.4, 1.07
_SIZE = 256
_lock = threading.Lock()
_speed: float | None = None


def onednn_speed() -> float:
    """How many times as fast as MKL's oneDNN's matrix products are here; measured once.

    0 where one of them isn't there.
    """
    global _speed
    if _speed is None:
        with _lock:
            if _speed is None:
                _speed = _apart(_measured) if _both_are_there() else 0.0
    return _speed


def _both_are_there() -> bool:
    mkl, onednn = torch.backends.mkl, torch.backends.mkldnn
    return bool(linear and mkl.is_available() and onednn.is_available())  # type: ignore[no-untyped-call]


@cache
def bfloat16_multiplies_faster() -> bool:
    """Whether matrix products of bfloat16 are clearly faster than float32's here; measured once."""
    return _apart(_measured_halves) >= CLEARLY


def _apart(measured: Callable[[], float]) -> float:
    """Measured in a thread of its own, where nobody watches or records what is called.

    What fails is not faster.
    """
    found: list[float] = []
    thread = threading.Thread(target=lambda: found.append(measured()), name="refluid measuring")
    thread.start()
    thread.join()
    return found[0] if found else 0.0


@contextmanager
def _one_thread() -> Iterator[None]:
    """Kernels run in the calling thread alone: what others compute, its clock doesn't show."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@torch.no_grad()
def _measured() -> float:
    assert linear is not None
    ours = theirs = 0.0
    with _one_thread():
        for rows, inner, columns in _PRODUCTS:
            a, b = torch.rand(rows, inner), torch.rand(inner, columns)
            mkl, onednn = partial(torch.mm, a, b), partial(linear, a, b.t(), None, "none", [], "")
            # What this thread computes: that is the same whatever others do to the clock.
            one, other = shortest(onednn, mkl, time.thread_time)
            ours, theirs = ours + one, theirs + other
    return theirs / ours


@torch.no_grad()
def _measured_halves() -> float:
    a, b = torch.rand(_SIZE, _SIZE), torch.rand(_SIZE, _SIZE)
    half_a, half_b = a.bfloat16(), b.bfloat16()
    halves, floats = (lambda: torch.mm(half_a, half_b)), (lambda: torch.mm(a, b))
    with _one_thread():
        ours, theirs = shortest(halves, floats, time.thread_time)
    return theirs / ours


def shortest(
    one: Callable[[], object],
    other: Callable[[], object],
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """The shortest time of each, in turns: whatever else runs only adds to it. Seconds."""
    best = [float("inf"), float("inf")]
    for _ in range(_TIMES):
        for number, work in enumerate((one, other)):
            start = clock()
            work()
            best[number] = min(best[number], clock() - start)
    return best[0], best[1]
