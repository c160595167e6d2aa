"""What a strategy file chose for a whole script: it stands over what the script says itself.

Executors, compiled programs, readers and optimizers ask here. `engine.strategy_file` reads and
checks such files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch

from refluid.core import flags
from refluid.core.dtypes import VarType
from refluid.engine.knobs import KnobScope, frozen
from refluid.engine.strategy import Strategy

_OPTIONS = (KnobScope.BUILD, KnobScope.EXECUTION, KnobScope.FLEET)
_THREADS = "FLAGS_paddle_num_threads"


@dataclass(frozen=True)
class Choices:
    """Values of knobs, by where they are set and by name; equal ones choose the same."""

    values: Mapping[KnobScope, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, scope: KnobScope) -> Mapping[str, Any]:
        """Those of one place."""
        return self.values.get(scope, {})

    def put(self, scope: KnobScope, name: str, value: Any) -> Choices:
        """These and one more."""
        return Choices({**self.values, scope: {**self.of(scope), name: value}})

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self.values.values()))

    def __bool__(self) -> bool:
        return self.count > 0


NONE = Choices()
_chosen = NONE
_options: tuple[tuple[str, Any], ...] = ()
_flags = ExitStack()
_consulted: set[KnobScope] = set()
# What torch had before threads were chosen.
_threads = 0


def choose(choices: Choices) -> None:
    """From now on these hold, in place of what was chosen before; programs are prepared anew.

    ValueError, TypeError for flags that can't have such values. Environment variables that the
    script sets itself afterwards are the script's.
    """
    global _chosen, _options, _threads
    if _THREADS not in _chosen.of(KnobScope.FLAG):
        _threads = torch.get_num_threads()
    _flags.close()
    _flags.enter_context(flags.override(choices.of(KnobScope.FLAG)))
    for name, value in choices.of(KnobScope.ENVIRONMENT).items():
        flags.export(name, str(value))
    if _THREADS in {**choices.of(KnobScope.FLAG), **_chosen.of(KnobScope.FLAG)}:
        asked = choices.of(KnobScope.FLAG).get(_THREADS, _threads)
        torch.set_num_threads(int(asked))
    _cast_at_once(choices)
    found = (item for scope in _OPTIONS for item in choices.of(scope).items())
    _options = tuple((name, frozen(value)) for name, value in found)
    _chosen = choices


def _cast_at_once(choices: Choices) -> None:
    """Has what runs at once compute in bfloat16, or no longer, where that changes."""
    half, before = (bool(one.of(KnobScope.PRECISION).get("decorate")) for one in (choices, _chosen))
    if half != before:
        from refluid.eager.casting import Casts  # most programs are static
        from refluid.eager.mode import cast_by

        cast_by(Casts(VarType.BF16) if half else None)


@contextmanager
def choosing(choices: Choices) -> Iterator[None]:
    """Within the block these hold, afterwards what held before; environment variables stay."""
    former = _chosen
    choose(choices)
    try:
        yield
    finally:
        choose(former)


def all_chosen() -> Choices:
    """What holds now."""
    return _chosen


def chosen(scope: KnobScope) -> Mapping[str, Any]:
    """The values that were chosen for knobs of one place."""
    _consulted.add(scope)
    return _chosen.of(scope)


def consulted() -> set[KnobScope]:
    """The places of knobs that something in this process asked `chosen` for: where choices act."""
    return set(_consulted)


def overlaid(strategy: Strategy) -> Strategy:
    """The strategy with what was chosen instead of its own; the same object for equal ones."""
    return _overlaid(strategy, _options) if _options else strategy


@cache
def _overlaid(strategy: Strategy, options: tuple[tuple[str, Any], ...]) -> Strategy:
    return replace(strategy, **dict(options))
