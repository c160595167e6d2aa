"""What this processor is good at, where that decides between kernels: found out by trying."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch

from refluid.kernels.onednn import linear

# Of the square matrices that are multiplied, how often by each, and from which ratio on the
# difference is one of the kernels rather than of the moment: MKL takes twice as long as oneDNN
# where it doesn't use the 512 bits that the processor has, and as long where it does.
_SIZE, _TIMES, _CLEARLY = 256, 8, 1.4
_lock = threading.Lock()
_faster: bool | None = None


def onednn_multiplies_faster() -> bool:
    """Whether oneDNN's matrix products are clearly faster than MKL's here; measured once."""
    global _faster
    if _faster is None:
        with _lock:
            if _faster is None:
                _faster = _both_are_there() and _apart(lambda: _measured())
    return _faster


def _both_are_there() -> bool:
    mkl, onednn = torch.backends.mkl, torch.backends.mkldnn
    return bool(linear and mkl.is_available() and onednn.is_available())  # type: ignore[no-untyped-call]


@cache
def bfloat16_multiplies_faster() -> bool:
    """Whether matrix products of bfloat16 are clearly faster than float32's here; measured once."""
    return _apart(_measured_halves)


def _apart(measured: Callable[[], bool]) -> bool:
    """Measured in a thread of its own, where nobody watches or records what is called."""
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(measured()), name="refluid measuring")
    thread.start()
    thread.join()
    return found == [True]


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
def _measured() -> bool:
    a, b = torch.rand(_SIZE, _SIZE), torch.rand(_SIZE, _SIZE)
    assert linear is not None
    mkl, onednn = (lambda: torch.mm(a, b)), (lambda: linear(a, b.t(), None, "none", [], ""))
    # What this thread computes: that is the same whatever other processes do to the clock.
    with _one_thread():
        return clearly_faster(onednn, mkl, time.thread_time)


@torch.no_grad()
def _measured_halves() -> bool:
    a, b = torch.rand(_SIZE, _SIZE), torch.rand(_SIZE, _SIZE)
    half_a, half_b = a.bfloat16(), b.bfloat16()
    halves, floats = (lambda: torch.mm(half_a, half_b)), (lambda: torch.mm(a, b))
    with _one_thread():
        return clearly_faster(halves, floats, time.thread_time)


def clearly_faster(
    one: Callable[[], object],
    other: Callable[[], object],
    clock: Callable[[], float] = time.perf_counter,
) -> bool:
    """Whether `one` is: by the shortest time of each, as whatever else runs only adds to it."""
    best = [float("inf"), float("inf")]
    for _ in range(_TIMES):
        for number, work in enumerate((one, other)):
            start = clock()
            work()
            best[number] = min(best[number], clock() - start)
    return best[1] > _CLEARLY * best[0]
