"""What steps of dygraph do, watched while they go by: torch's operators, their times and memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from torch.profiler import ProfilerActivity, profile

from refluid.core.dtypes import VarType
from refluid.eager import current
from refluid.tune.profile import (
    SLOWEST,
    SMALL,
    OperatorCost,
    Profile,
    flags_set,
    scopes_consulted,
    together,
)


@contextmanager
def watched(steps: int) -> Iterator[list[Profile]]:
    """Watches so many steps, which run within the block; the list then has what they do."""
    found: list[Profile] = []
    start = time.perf_counter()
    with profile(activities=[ProfilerActivity.CPU], with_flops=True, profile_memory=True) as seen:
        yield found
        seconds = (time.perf_counter() - start) / steps
    found.append(_profile_of(seen, steps, seconds))


def _profile_of(seen: Any, steps: int, seconds: float) -> Profile:
    events = [one for one in seen.key_averages() if one.key != "[memory]"]
    costs, few = [], []
    for one in events:
        ms = one.self_cpu_time_total / 1e3 / steps
        costs.append(OperatorCost(one.key, "", "", ms, round(one.flops / steps), 0))
        if one.self_cpu_time_total / 1e3 < SMALL * one.count:
            few.append(costs[-1])
    ms = sum(one.ms for one in costs)
    return Profile(
        ms=ms,
        between=max(0.0, 1e3 * seconds - ms),
        small=together(few),
        operators=round(sum(one.count for one in events) / steps),
        updates=0,
        updates_ms=0.0,
        flops=sum(one.flops for one in costs),
        moved=0,
        peak=_peak(seen),
        fed={},
        reads=True,
        half=_is_half(),
        replicas=1,
        threads=0,
        everywhere=False,
        fusions=[],
        flags=flags_set(),
        slowest=sorted(costs, key=lambda one: -one.ms)[:SLOWEST],
        by_line=[],
        scopes=scopes_consulted(),
    )


def _peak(seen: Any) -> int:
    events = [one for one in seen.profiler.kineto_results.events() if one.name() == "[memory]"]
    events.sort(key=lambda one: one.start_ns())
    return max(accumulate(one.nbytes() for one in events), default=0)


def _is_half() -> bool:
    now = current()
    casts: Any = now.casting if now else None
    return casts is not None and casts.half in (VarType.FP16, VarType.BF16)
