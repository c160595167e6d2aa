"""Whoever wants to know of each step that a script runs, such as `refluid tune`: usually nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from refluid.core.scope import Scope


@dataclass(frozen=True)
class RunCall:
    """A call of `Executor.run`: `call()` does what was asked for.

    program: plain or compiled. feed: as the user gave it. fetches: names or variables. beside: how
    many threads train at once, of which this is the first one's; possible: how many could.
    """

    run: Callable[..., list[Any]]
    program: Any
    feed: Any
    fetches: Any
    scope: Scope
    return_numpy: bool = True
    return_merged: bool = True
    beside: int = 1
    possible: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """What is fetched, by name."""
        alone = self.fetches is not None and not isinstance(self.fetches, list | tuple)
        asked = [self.fetches] if alone else self.fetches or ()
        return tuple(one if isinstance(one, str) else getattr(one, "name", "") for one in asked)

    @property
    def key(self) -> tuple[int, tuple[str, ...]]:
        """By which calls are of one loop: the program's id and what is fetched."""
        return id(self.program), self.names

    def __call__(self) -> list[Any]:
        return self.run(
            self.program, self.feed, self.fetches, self.scope, self.return_numpy, self.return_merged
        )


Listener = Callable[[RunCall], list[Any]]
listener: Listener | None = None
"""Called in place of each run; it must call what it is given, and return what that gives.

Of several threads that train on a dataset it hears of the first one's batches.
"""
StepListener = Callable[[Any], None]
step_listener: StepListener | None = None
"""Called with the loss, None where it isn't known, after each update of dygraph's parameters, where
a step of its loop ends.
"""


@contextmanager
def heard_by(one: Listener, *, steps: StepListener | None = None) -> Iterator[None]:
    """Within the block it hears of each run; who heard of them before hears what it runs.

    steps: called after each step of dygraph.
    """
    global listener, step_listener
    former = listener, step_listener
    listener = one if listener is None else _through(listener, one)
    if steps is not None:
        step_listener = steps if step_listener is None else _both(step_listener, steps)
    try:
        yield
    finally:
        listener, step_listener = former


def _through(former: Listener, one: Listener) -> Listener:
    def hear(call: RunCall) -> list[Any]:
        run = call.run
        return one(replace(call, run=lambda *asked: former(RunCall(run, *asked))))

    return hear


def _both(one: StepListener, other: StepListener) -> StepListener:
    def call(loss: Any) -> None:
        one(loss)
        other(loss)

    return call
