"""A made-up machine, for searches that take no time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refluid.engine.choices import Choices
from refluid.engine.knobs import KnobScope
from refluid.tune.ratios import TimedBlock
from refluid.tune.search import BlockFailed, Search
from refluid.tune.space import Proposal, TunableKnob

FLAG = KnobScope.FLAG


def proposal(name: str, value: Any = 1, **more: Any) -> Proposal:
    return Proposal(TunableKnob(FLAG, name, lambda _now: [value], (), 0.1, **more), value)


@dataclass
class Machine:
    """A bench of made-up times: each choice multiplies the time of a step, as "a+b" does where
    both are made."""

    factors: dict[str, float]
    noise: float = 0.01
    losses: dict[str, float] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    fails: str = ""
    prepares: dict[str, float] = field(default_factory=dict)
    seed: int = 1
    usual_peak: int = 100
    step: float = 0.01
    starts: float = 0.0
    now: float = 0.0
    blocks: int = 0

    def __post_init__(self) -> None:
        self.random = np.random.RandomState(self.seed)
        self.drift, self.known = 1.0, list[str]()

    def block(
        self,
        choices: Choices,
        steps: int,
        *,
        live: bool = False,
        memory: bool = False,
        within: float = math.inf,
    ) -> TimedBlock:
        names = list(choices.of(FLAG))
        names += [one for one in self.factors if "+" in one and set(one.split("+")) <= {*names}]
        if self.fails in names:
            raise BlockFailed("it ended")
        self.drift *= math.exp(self.random.normal(0, self.noise))
        factor = math.prod(self.factors.get(name, 1.0) for name in names)
        seconds = self.step * factor * self.drift * math.exp(self.random.normal(0, self.noise))
        anew, key = repr(choices) not in self.known, repr(choices)
        self.known = [*(one for one in self.known if one != key), key][-2:]
        takes = seconds * steps + (self.starts + self._preparing(names)) * anew
        self.now += min(takes, within)
        if takes > within:
            raise BlockFailed("no answer")
        self.blocks += 1
        off = sum(self.losses.get(name, 0.0) for name in names)
        peaks = [self.usual_peak, *(self.peaks[name] for name in names if name in self.peaks)]
        peak = max(peaks) if max(peaks) > self.usual_peak else min(peaks)
        return TimedBlock(seconds, [2.0 + off, 1.5], peak if memory else 0)

    def _preparing(self, names: Sequence[str]) -> float:
        return sum(self.prepares.get(name, 0.0) for name in names)


def search(machine: Machine, *, seconds: float = 1e9, **more: Any) -> Search:
    return Search(machine, seconds, clock=lambda: machine.now, **more)


def kept(found: Search) -> set[str]:
    return set(found.best.of(FLAG))
