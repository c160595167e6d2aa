"""The bench of a search: a process of the script for each way of starting it, at its gate."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

from refluid.core import flags
from refluid.engine.choices import NONE, Choices
from refluid.engine.knobs import KnobScope
from refluid.tune.ratios import TimedBlock
from refluid.tune.search import BlockFailed
from refluid.tune.session import NoLoop, Script, TrialFailed
from refluid.tune.trainers import AtGate, at_gate

# What acts when a script starts: on processes, readers and programs while they are built.
_AT_START = (
    KnobScope.PRECISION, KnobScope.READER, KnobScope.LOADER, KnobScope.DATASET, KnobScope.DYGRAPH,
    KnobScope.ENVIRONMENT,
)  # fmt: skip
_START_FLAGS = ("FLAGS_use_system_allocator",)
# Two sides are compared, and each may need a process of its own.
_MOST = 2
# Blocks of steps that can't be run again are so many times as long: others happen in them.
_LONGER = 3
# Steps of a loop that goes on: more than batches wait for it.
_GOES_ON = 16


class Sessions:
    """The processes. tell: is called with what takes long."""

    def __init__(self, script: Script, tell: Callable[[str], None]) -> None:
        self._script, self._tell = script, tell
        self._open: dict[str, AtGate] = {}
        self._passes = False

    def default(self) -> AtGate:
        """The script as it is. NoLoop where it never comes to its gate."""
        return self._session(NONE)

    def block(
        self,
        choices: Choices,
        steps: int,
        *,
        live: bool = False,
        memory: bool = False,
        within: float = math.inf,
    ) -> TimedBlock:
        """As `Bench.block`."""
        key, until = self._key(choices), time.monotonic() + within
        try:
            session = self._session(key, within)
            patience = until - time.monotonic()
            passes = session.life.kind.passes
            if live or passes:
                readers = choices.of(KnobScope.READER) or choices.of(KnobScope.LOADER)
                count = 0 if readers else max(_GOES_ON, _LONGER * steps)
                life = session.go(choices, count, patience)
                losses, exact = session.first.losses, session.first.kind.is_exact
                shown = losses if exact else [statistics.fmean(losses or [0.0])]
                return TimedBlock(life.period, shown, life.resident if memory else 0)
            found = session.ask("replay", choices, patience, steps=steps, memory=memory)
        except (NoLoop, TrialFailed) as error:
            self._drop(key)
            raise BlockFailed(str(error).splitlines()[0]) from None
        # Where no loss is fetched, what is trained tells whether it trains alike.
        losses = found["losses"] if any(found["losses"]) else [found["norm"]]
        return TimedBlock(statistics.median(found["seconds"]), losses, found["peak"])

    def _key(self, choices: Choices) -> Choices:
        """With what the process that runs these choices is started: steps that can't be run again
        must be so from the first one on."""
        default = self._open.get(repr(NONE))
        self._passes = self._passes or (default is not None and default.life.kind.passes)
        threads = bool(choices.of(KnobScope.DATASET))
        return choices if self._passes or threads else started_with(choices)

    def _session(self, choices: Choices, within: float = math.inf) -> AtGate:
        key = repr(choices)
        if key not in self._open:
            while len(self._open) >= _MOST:
                first = next(iter(self._open))
                self._open.pop(first).close()
            self._tell("the script starts" + (" anew" if choices else ""))
            self._open[key] = at_gate(self._script, choices, within)
        else:  # used last
            self._open[key] = self._open.pop(key)
        return self._open[key]

    def _drop(self, choices: Choices) -> None:
        session = self._open.pop(repr(choices), None)
        if session is not None:
            session.close()

    def close(self) -> None:
        """Ends all."""
        for session in self._open.values():
            session.close()
        self._open.clear()


def started_with(choices: Choices) -> Choices:
    """The part of choices with which a process must be started."""
    values: dict[KnobScope, dict[str, Any]] = {
        scope: dict(choices.of(scope)) for scope in _AT_START if choices.of(scope)
    }
    early = {name: value for name, value in choices.of(KnobScope.FLAG).items()
             if name in _START_FLAGS and flags.get_flags(name)[name] != value}  # fmt: skip
    if early:
        values[KnobScope.FLAG] = early
    return Choices(values)
