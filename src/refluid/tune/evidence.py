"""What a diagnosis is made of, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from refluid.measure.ceilings import Ceilings
from refluid.tune.doctor.host import Host
from refluid.tune.doctor.load import LoadByOthers
from refluid.tune.living import Life
from refluid.tune.profile import Profile


class BoundBy(Enum):
    """What a part of a step is spent on."""

    READER = "waiting for data"
    PYTHON = "Python between steps"
    SCHEDULING = "small operators and what is between them"
    KERNELS = "kernels"
    COMMUNICATION = "exchanges with other trainers"


@dataclass(frozen=True)
class Cause:
    """One thing that a person can change: what it is, what it costs, what to do, where."""

    name: str
    fact: str
    advice: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """shares: parts of a step, which add up to 1, the largest first. efficiency: the time that a
    perfect machine of these ceilings needs, of that which runs take."""

    shares: dict[BoundBy, float]
    efficiency: float
    limit: str
    causes: tuple[Cause, ...]

    @property
    def bound(self) -> BoundBy:
        """What most of a step is spent on."""
        return next(iter(self.shares))


@dataclass(frozen=True)
class Evidence:
    """All that a diagnosis is made of. half: how many times as fast bfloat16 multiplies.

    life: of the slowest trainer, where there are several; lives: of all, by rank.
    """

    life: Life
    profile: Profile
    ceilings: Ceilings
    half: float
    host: Host
    load: LoadByOthers
    flags: Mapping[str, Any]
    lives: tuple[Life, ...] = ()
