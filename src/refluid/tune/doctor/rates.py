"""The measured ceilings: copies and matrix products, by one thread and by all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from refluid.core.threads import use_threads
from refluid.measure.ceilings import copy_rate, matrix_rate
from refluid.tune.doctor.sign import Sign

_CPU = torch.device("cpu")
_SCALES = 0.6
_HALF = 1.3


@dataclass(frozen=True)
class Rates:
    """By so many threads: bytes per second copied, operations per second of matrix products."""

    threads: int
    copied: float
    full: float
    half: float


def measure_rates(threads: Iterable[int]) -> list[Rates]:
    """Of each number of threads."""
    found = []
    for count in threads:
        with use_threads(count):
            found.append(
                Rates(
                    count,
                    copy_rate(_CPU),
                    matrix_rate(_CPU),
                    matrix_rate(_CPU, torch.bfloat16),
                )
            )
    return found


def found_rates(rates: list[Rates], *, loaded: bool = False) -> list[Sign]:
    """What they are, and whether threads and bfloat16 gain what they should.

    loaded: others hold cores, which explains threads that gain little.
    """
    found = [_rate(one) for one in rates]
    one, most = rates[0], rates[-1]
    gain = most.full / one.full
    if most.threads > 1 and gain < _SCALES * most.threads and not loaded:
        advice = (
            "half of the cores are perhaps second threads of the others: try OMP_NUM_THREADS of "
            "half as many"
        )
        fact = f"{most.threads} threads multiply {gain:.2g} times as fast as one"
        found.append(Sign("scaling", fact, advice, {"ratio": gain}))
    half = most.half / most.full
    fact = f"matrix products {half:.2g} times as fast as float32"
    if half > _HALF:
        fact += ": paddle.fluid.contrib.mixed_precision pays here"
    found.append(Sign("bfloat16", fact, "", {"ratio": half}))
    return found


def _rate(one: Rates) -> Sign:
    fact = (
        f"copies {one.copied / 1e9:.3g} GB/s, products {one.full / 1e9:.4g} GFLOP/s float32, "
        f"{one.half / 1e9:.4g} bfloat16"
    )
    figures: dict[str, float | str] = {
        "copied_bytes_per_second": one.copied,
        "float32_flops": one.full,
        "bfloat16_flops": one.half,
    }
    return Sign(f"{one.threads} thread{'s' * (one.threads > 1)}", fact, "", figures)
