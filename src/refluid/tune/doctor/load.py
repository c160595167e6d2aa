"""How much of the machine others use at the moment."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil

from refluid.tune.doctor.sign import Sign

_MUCH = 0.1
_STOLEN = 0.03


@dataclass(frozen=True)
class LoadByOthers:
    """Of all cores' time: what other processes took, and what the host of a virtual machine did."""

    others: float
    stolen: float

    @property
    def is_heavy(self) -> bool:
        """Whether it slows training down."""
        return self.others + self.stolen > _MUCH


def measure_load(seconds: float = 1.0) -> LoadByOthers:
    """The load while this process waits."""
    own, before = psutil.Process(), psutil.cpu_times()
    used = _own_seconds(own)
    time.sleep(seconds)
    after = psutil.cpu_times()
    mine = _own_seconds(own) - used
    total = sum(after) - sum(before) - _twice(after, before)
    idle = _part(after, before, "idle") + _part(after, before, "iowait")
    stolen = _part(after, before, "steal")
    if total <= 0:
        return LoadByOthers(0.0, 0.0)
    return LoadByOthers(max(0.0, total - idle - stolen - mine) / total, stolen / total)


def found_load(load: LoadByOthers) -> Sign:
    """What it means."""
    fact = f"other processes use {load.others:.0%} of the cores"
    if load.stolen > _STOLEN:
        fact += f", other virtual machines {load.stolen:.0%}"
    advice = ""
    if load.is_heavy:
        advice = (
            "operators wait for the slowest thread, so fewer can be faster: refluid tries that by "
            "itself unless a number is set; figures below aren't those of a quiet machine"
        )
    figures: dict[str, float | str] = {"others_share": load.others, "stolen_share": load.stolen}
    return Sign("load", fact, advice, figures)


def _own_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _part(after: object, before: object, name: str) -> float:
    return float(getattr(after, name, 0.0) - getattr(before, name, 0.0))


def _twice(after: object, before: object) -> float:
    """Time of guests counts as time of users too."""
    return _part(after, before, "guest") + _part(after, before, "guest_nice")
