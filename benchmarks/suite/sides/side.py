"""The interface of all sides, and what one is told."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.suite.workloads import Workload
from refluid.measure.timing import Feed

Weights = Mapping[str, npt.NDArray[np.generic]]


@dataclass(frozen=True)
class Options:
    """`variant` is a way to use a framework (eager, compile); `half` asks for mixed precision.
    `clock`: wall, or cpu, the time that the process computed: others disturb it less."""

    variant: str = ""
    device: str = "cpu"
    threads: int = 0
    half: str = ""
    clock: str = "wall"


@dataclass(frozen=True)
class Needs:
    """What a step can't do without; 0: unknown.

    flops: floating-point operations of matrix products and convolutions. moved: bytes read and
    written of what is fed, weights, gradients and optimizers' states, each as few times as it can
    be. held: bytes of the weights and states among them. alone: seconds of its matrix products and
    convolutions one by one, each by the fastest kernel there is.
    """

    flops: int = 0
    moved: int = 0
    held: int = 0
    alone: float = 0.0


class Side(Protocol):
    """A network ready to train."""

    def weights(self) -> Weights:
        """All weights as they are now, by Fluid's names and in Fluid's layout."""

    def prepare(self, feed: Feed) -> Any:
        """What `step` is fed; the clock doesn't run yet."""

    def step(self, prepared: Any) -> float:
        """Trains one step and returns its loss."""

    def is_settled(self) -> bool:
        """Whether further steps take as long as those so far: nothing is compiled meanwhile."""

    def needs(self, prepared: Any) -> Needs:
        """Of one step, where the framework can tell."""

    def shares(self, prepared: Any) -> dict[str, float]:
        """Of a step's time, by operator; empty where the framework's operators aren't PyTorch's."""

    def peak(self) -> int | None:
        """Most bytes held so far, where the framework knows better than the process does."""

    def versions(self) -> dict[str, str]: ...


CLOCKS: Mapping[str, Callable[[], float]] = {
    "wall": time.perf_counter,
    "cpu": time.process_time,
}


def make(kind: str, work: Workload, options: Options, weights: Weights | None) -> Side:
    """The side `kind` (refluid, pytorch, paddle, jax); without weights it makes its own."""
    module = importlib.import_module(f"benchmarks.suite.sides.{kind}_side")
    made: Side = module.make(work, options, weights)
    return made
