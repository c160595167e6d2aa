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
from refluid.core.random import seed_all
from refluid.engine.choices import choose
from refluid.engine.listening import RunCall, heard_by
from refluid.engine.replica_scopes import updates_variables
from refluid.engine.strategy_file import checked
from refluid.tune.living import Life, Living
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
_OF_DYGRAPH = (
    "its loop is one of fluid.dygraph, and only loops that run programs are tuned; refluid run "
    "--watch shows what its steps take"
)
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
        self._course: _Course = self._whole_course()

    def __call__(self, call: RunCall) -> list[Any]:
        """The listener of `engine.listening`."""
        if threading.current_thread() is not threading.main_thread():
            return call()
        key = call.key
        if self._loop is None and self._begins(key, call):
            self._loop = key
            next(self._course)
        if key != self._loop:
            return call()
        attempt = _Attempt(call)
        results = self._course.send(attempt)
        if attempt.error is not None:
            raise attempt.error
        return results

    def step(self) -> None:
        """A step of dygraph ended. Its loop is Python, which can't be run again."""
        self._steps += 1
        if self._steps == _WITHOUT_UPDATES and self._loop is None:
            self.say({"failed": _OF_DYGRAPH})
            self._lines.readline()  # until the tuner ends this process

    def _begins(self, key: Hashable, call: RunCall) -> bool:
        self._runs[key] += 1
        trains = updates_variables(plain_program(call.program))
        return self._runs[key] >= (_RECOGNISED if trains else _WITHOUT_UPDATES)

    def _whole_course(self) -> _Course:
        """What happens with the runs of the loop, one after the other."""
        tried = yield []
        for _ in range(_BEFORE):
            tried = yield tried()
        while True:
            living = Living(_LIVE if world().size == 1 else _TOGETHER)
            while not living.is_enough:
                tried = yield living.run(tried)
            life = living.end()
            batches: list[RunCall] = []
            while len(batches) < _BATCHES and _size(batches) < _MOST:
                batch = replace(tried.call, feed=copy.deepcopy(tried.call.feed))
                results = tried()
                if tried.error is None:
                    batches.append(batch)
                tried = yield results
            self._answer(batches, life)

    def _answer(self, batches: list[RunCall], life: Life) -> None:
        """Tells what was measured, and answers until the script is to go on."""
        window = StepWindow(batches)
        self.say({"life": asdict(life)})
        for line in self._lines:
            asked = json.loads(line)
            if asked["do"] == "go":
                window.close()
                choose(checked(asked["choices"], "a trial"))
                return
            try:
                found = _ANSWERS[asked["do"]](window, batches[0], asked)
            except Exception as error:
                found = {"failed": f"{type(error).__name__}: {error}"}
            self.say(found)
        os._exit(0)  # the tuner is gone

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

    number: of the socket. What draws random numbers and has no seed of its own gets one.
    """
    talk = socket.socket(fileno=number)
    one = Gate(talk)
    for seeded in (random.seed, np.random.seed, torch.manual_seed, seed_all):
        seeded(_SEED)
    try:
        with heard_by(one, all_in_turn=True, steps=one.step):
            yield
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code:
            one.say({"failed": f"{type(error).__name__}: {error}"})
            raise
    one.say({"ended": time.perf_counter()})
