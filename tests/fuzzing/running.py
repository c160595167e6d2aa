"""Runs a program in one way: all its steps, what they returned, and what is left in the scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np
import torch

from refluid import fluid
from refluid.core import flags
from refluid.core.random import RandomSource
from refluid.core.selected_rows import SelectedRows
from refluid.core.values import LoDTensor
from refluid.ops import by_loops
from refluid.runtime.recorded.trial import compiling_at_once
from tests.fuzzing.programs import Built, Spec, feed_of

State = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """How a program is run.

    flags: set meanwhile. compiled: what is run instead of the program, made from it. places: how
    many replicas; each is fed all of a step's feed (`copies`), or its part. nudged: by how much of
    itself every number that goes in is changed, with a seed. at_once: what is to be compiled is
    compiled where it comes up, not in the background.
    """

    name: str
    flags: Mapping[str, Any] = field(default_factory=dict)
    compiled: Callable[[Built], Any] | None = None
    places: int = 1
    copies: bool = False
    nudged: tuple[float, int] | None = None
    reader: bool = False
    at_once: bool = False


@dataclass
class Trace:
    """Per step the fetched values, or the kind of error; the persistable variables at the end.

    A fetched value is a list: an array and its LoD for each place.
    """

    steps: list[list[Any] | str]
    state: State

    @property
    def refused(self) -> int:
        """How many steps were."""
        return sum(isinstance(one, str) for one in self.steps)


def initial(built: Built) -> State:
    """What the startup program makes."""
    scope = fluid.Scope()
    fluid.Executor().run(built.startup, scope=scope)
    return held(built, scope)


def held(built: Built, scope: Any) -> State:
    """Copies of all persistable variables that have a value."""
    found = {}
    for var in built.main.list_vars():
        cell = scope.find_var(var.name) if var.persistable else None
        if cell is not None and isinstance(cell.value, torch.Tensor):
            found[var.name] = np.array(cell.get_tensor())
    return found


def run(spec: Spec, built: Built, start: State, way: Way) -> Trace:
    """All steps of the program in this way, from this state on."""
    return run_fed(built, (feed_of(spec, step) for step in spec.steps), start, way, spec.seed)


def run_fed(
    built: Built, feeds: Iterable[Mapping[str, Any]], start: State, way: Way, seed: int
) -> Trace:
    """A step for each of the feeds, from this state and this state of random numbers on."""
    scope, executor = fluid.Scope(), fluid.Executor()
    for name, value in start.items():
        scope.var(name).get_tensor().set(_nudge(value, way), fluid.CPUPlace())
    RandomSource(torch.device("cpu"))(0).manual_seed(seed)
    # Small operators by compiled loops in all ways, or in none, not from some call on.
    by_loops._calls = repeat(seed % 2 * by_loops._OFTEN)
    with flags.override(way.flags), compiling_at_once() if way.at_once else nullcontext():
        program = way.compiled(built) if way.compiled else built.main
        if way.reader:
            feeds = _loaded(built, list(feeds))
        steps = [_step(executor, program, feed, built.fetches, scope, way) for feed in feeds]
        return Trace(steps, held(built, scope))


def _loaded(built: Built, feeds: Sequence[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """The same through a loader's thread and queue."""
    names = [*feeds[0]]
    variables = [built.main.global_block().var(name) for name in names]
    loader = fluid.io.DataLoader.from_generator(feed_list=variables, capacity=2)
    batches = ([feed[name] for name in names] for feed in feeds)
    loader.set_batch_generator(lambda: batches, places=fluid.cpu_places(1))
    return ({**one[0]} if isinstance(one, list) else one for one in loader())


def _step(
    executor: Any, program: Any, given: Mapping[str, Any], fetches: list[str], scope: Any, way: Way
) -> list[Any] | str:
    feed: Any = {name: _nudge(value, way) for name, value in given.items()}
    if way.copies:
        feed = [feed] * way.places
    try:
        found = executor.run(
            program, feed, fetches, scope=scope, return_numpy=False, return_merged=False
        )
    except Exception as error:
        return kind_of(error)
    several = [one if isinstance(one, list) else [one] for one in found]
    return [[_kept(value) for value in values] for values in several]


def _kept(value: Any) -> tuple[Any, Any]:
    """An array, and the LoD or the rows it belongs to."""
    if isinstance(value, SelectedRows):
        return np.array(value.get_tensor()), value.rows()
    if isinstance(value, LoDTensor) and not value._is_initialized():
        return np.array([]), []
    return np.array(value), value.lod() if isinstance(value, LoDTensor) else []


def _nudge(value: Any, way: Way) -> Any:
    if way.nudged is None or not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    share, seed = way.nudged
    noise = np.random.RandomState(seed).uniform(-share, share, value.shape)
    return (value * (1 + noise)).astype(value.dtype)


def kind_of(error: Exception) -> str:
    """Its type, and the operator it names."""
    name = type(error).__name__
    _, found, rest = str(error).rpartition("[operator < ")
    return f"{name} {rest.partition(' >')[0]}" if found else name
