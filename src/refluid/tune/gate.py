"""The script's side of tuning: its loop is recognised and measured, then it waits at a gate.

`refluid run --gate NUMBER` puts this in front of every run of a program. The other end of the
socket of that number then asks, by lines of JSON, for what `_ANSWERS` lists; the script goes on
only where it is asked to, and never to its end.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from refluid.comm.world import world
from refluid.core import flags
from refluid.core.random import seed_all
from refluid.engine.choices import all_chosen, choose
from refluid.engine.listening import RunCall, heard_by
from refluid.engine.replica_scopes import updates_variables
from refluid.engine.strategy_file import checked
from refluid.runtime.recorded.trial import undecided
from refluid.tune.apart import end_with_parent
from refluid.tune.living import Life, Living, LoopKind
from refluid.tune.passing import PassingLoop
from refluid.tune.profile import profiled
from refluid.tune.window import StepWindow, plain_program

_SEED = 20
# A program that trains is a loop from its third run on; any other one from the twentieth.
_RECOGNISED, _WITHOUT_UPDATES = 3, 20
# Steps of the loop before it is measured; steps, or seconds, while it is.
_BEFORE = 6
_LIVE = 60, 8.0
# Trainers come to their gates after the same step, however long that takes.
_TOGETHER = 24, math.inf
# Different batches of a window, and the most bytes of them.
_BATCHES, _MOST = 4, 1 << 28
# Most steps of a loop that goes on until all is compiled.
_COMPILING = 2000
# Of loops that go on instead of being run again: those of several threads, or with servers.
_PASSING = 24, 6.0
_SERVERS, _TRAINERS = "PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINERS_NUM"
_Course = Generator[list[Any], "_Attempt", None]


@dataclass
class _Attempt:
    """A call that may fail, as one at the end of the data does: `error` is for the script."""

    call: RunCall
    error: BaseException | None = None

    def __call__(self) -> list[Any]:
        try:
            return self.call()
        except BaseException as error:
            self.error = error
            return []


class Gate:
    """Hears of every run. talk: the tuner at the other end."""

    def __init__(self, talk: socket.socket) -> None:
        self._lines = talk.makefile("rw", encoding="utf-8", newline="\n")
        self._runs: Counter[Hashable] = Counter()
        self._loop: Hashable | None = None
        self._steps = 0
        self._of_dygraph: PassingLoop | None = None
        self._kind = LoopKind()
        self._course: _Course = self._whole_course()

    def __call__(self, call: RunCall) -> list[Any]:
        """The listener of `engine.listening`."""
        alone = call.beside == 1 and threading.current_thread() is not threading.main_thread()
        if alone or self._of_dygraph is not None:
            return call()
        key = call.key
        if self._loop is None and self._begins(key, call):
            self._loop = key
            servers = bool(flags.environment_str(_SERVERS))
            self._kind = LoopKind(False, servers, call.beside, call.possible)
            next(self._course)
        if key != self._loop:
            return call()
        attempt = _Attempt(call)
        results = self._course.send(attempt)
        if attempt.error is not None:
            raise attempt.error
        return results

    def step(self, loss: Any) -> None:
        """A step of dygraph ended."""
        self._steps += 1
        if self._of_dygraph is not None:
            self._of_dygraph.passed(loss)
        elif self._steps == _RECOGNISED and self._loop is None:
            self._of_dygraph = PassingLoop(self.say, self._asked, _BEFORE, has_others=_has_others())

    def _begins(self, key: Hashable, call: RunCall) -> bool:
        self._runs[key] += 1
        trains = updates_variables(plain_program(call.program))
        return self._runs[key] >= (_RECOGNISED if trains else _WITHOUT_UPDATES)

    def _whole_course(self) -> _Course:
        """What happens with the runs of the loop, one after the other."""
        tried = yield []
        for _ in range(_BEFORE):
            tried = yield tried()
        most = _TOGETHER if _has_others() else _PASSING if self._kind.passes else _LIVE
        first, batches = most, list[RunCall]()
        while True:
            living = Living(most, self._kind)
            while not living.is_enough:
                tried = yield living.run(tried)
            life = living.end()
            batches = batches if self._kind.passes else []
            while len(batches) < _BATCHES and _size(batches) < _MOST:
                batch = replace(tried.call, feed=copy.deepcopy(tried.call.feed))
                results = tried()
                if tried.error is None:
                    batches.append(batch)
                tried = yield results
            if self._kind.passes and not _has_others():
                for _ in range(_COMPILING):
                    if not undecided():
                        break
                    tried = yield tried()
            steps = self._answer(batches, life)
            most = (steps, math.inf) if steps else first

    def _answer(self, batches: list[RunCall], life: Life) -> int:
        """Tells what was measured, and answers until the script is to go on: so many steps."""
        window: StepWindow | None = None if self._kind.passes else StepWindow(batches)
        self.say({"life": asdict(life)})
        while (asked := self._asked())["do"] != "go":
            window = window or StepWindow(batches)
            try:
                found = _ANSWERS[asked["do"]](window, batches[0], asked)
            except Exception as error:
                found = {"failed": f"{type(error).__name__}: {error}"}
            self.say(found)
        if window is not None:
            window.close()
        choices = checked(asked["choices"], "a trial")
        if choices != all_chosen():
            choose(choices)
        return int(asked.get("steps", 0))

    def _asked(self) -> dict[str, Any]:
        """What the tuner asks for next."""
        line = self._lines.readline()
        if not line:
            os._exit(0)  # the tuner is gone
        asked: dict[str, Any] = json.loads(line)
        return asked

    def say(self, what: dict[str, Any]) -> None:
        """One line to the tuner."""
        self._lines.write(json.dumps(what) + "\n")
        self._lines.flush()


def _replay(window: StepWindow, _call: RunCall, asked: dict[str, Any]) -> dict[str, Any]:
    choices = checked(asked["choices"], "a trial")
    return asdict(window.replay(choices, asked["steps"], memory=asked.get("memory", False)))


def _profile(window: StepWindow, call: RunCall, _asked: dict[str, Any]) -> dict[str, Any]:
    return asdict(profiled(window, call.program))


_ANSWERS: dict[str, Callable[[StepWindow, RunCall, dict[str, Any]], dict[str, Any]]] = {
    "replay": _replay,
    "profile": _profile,
}


def _has_others() -> bool:
    """Whether other trainers run the same steps, so that all must come to their gates together."""
    return world().size > 1 or int(flags.environment_str(_TRAINERS) or 1) > 1


def _size(calls: list[RunCall]) -> int:
    return sum(_bytes(call.feed) for call in calls)


def _bytes(feed: Any) -> int:
    if isinstance(feed, dict):
        return sum(_bytes(one) for one in feed.values())
    if isinstance(feed, list | tuple):
        return sum(map(_bytes, feed))
    return (
        int(getattr(feed, "nbytes", 0)) or int(np.asarray(feed).nbytes) if feed is not None else 0
    )


@contextlib.contextmanager
def gate(number: int) -> Iterator[None]:
    """Within the block each run passes the gate; the tuner learns how the script ends.

    number: of the socket; 0 for a process without one, such as a server of tables. What draws
    random numbers and has no seed of its own gets one.
    """
    end_with_parent()
    for seeded in (random.seed, np.random.seed, torch.manual_seed, seed_all):
        seeded(_SEED)
    if not number:
        yield
        return
    one = Gate(socket.socket(fileno=number))
    try:
        with heard_by(one, steps=one.step):
            yield
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code:
            one.say({"failed": f"{type(error).__name__}: {error}"})
            raise
    one.say({"ended": time.perf_counter()})
