"""What can happen to a job of `counting.py` on emulated hosts."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.counted_jobs import MORE, CountingRun

SERVER, TRAINER = 1, 3  # to whom it happens
AWAY, STEPS = 10.0, 150
# A server that comes needs seconds to start; how long its coming takes, at most.
_LONG, _COMING, _AT_MOST = 700, 0.5, 60.0
Does = Callable[[CountingRun], None]


class NotDone(Exception):
    """What was to happen to a job did not."""


def _kill(host: int, *, again: bool) -> Does:
    def does(run: CountingRun) -> None:
        run.signal(host, signal.SIGKILL)
        run.processes[host].wait()
        if again:
            run.start(host)

    return does


def _restart(run: CountingRun) -> None:
    run.signal(SERVER, signal.SIGTERM)
    run.processes[SERVER].wait(30)
    run.start(SERVER)


def _stop(host: int) -> Does:
    def does(run: CountingRun) -> None:
        run.signal(host, signal.SIGSTOP)
        time.sleep(AWAY)
        run.signal(host, signal.SIGCONT)

    return does


def _cut(host: int) -> Does:
    def does(run: CountingRun) -> None:
        run.hosts.cut(host)
        time.sleep(AWAY)
        run.hosts.mend(host)

    return does


def _comes(dies: int | None = None) -> Does:
    """A server comes; of whom `dies` a host is killed meanwhile, and started again."""

    def does(run: CountingRun) -> None:
        run.start(MORE)
        if dies is not None:
            _until(lambda: run.ready(MORE) > 0.0, "the server that was to come didn't start")
            time.sleep(random.uniform(0.0, _COMING))
            _kill(dies, again=dies != TRAINER)(run)
        _until(lambda: len(run.listed()) == 3, "no server came")

    return does


def _goes(host: int) -> Does:
    def does(run: CountingRun) -> None:
        told = run.asked("remove", str(host))
        if f"server {host} is out" not in told:
            raise NotDone(told)
        if host in run.listed():
            raise NotDone(f"server {host} is still there")

    return does


def _until(holds: Callable[[], bool], otherwise: str) -> None:
    until = time.monotonic() + _AT_MOST
    while not holds():
        if time.monotonic() > until:
            raise NotDone(otherwise)
        time.sleep(0.02)


def _nothing(run: CountingRun) -> None:
    del run


@dataclass(frozen=True)
class Fault:
    """What happens to a job, in words too. alone: trainers may make steps without each other.

    steps: of each trainer, enough for all of it to happen meanwhile.
    """

    text: str
    does: Does = _nothing
    options: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    alone: bool = False
    full: bool = False
    steps: int = STEPS


FAULTS = {
    "nothing": Fault("nothing"),
    "kill-server": Fault("SIGKILL of a server, started again", _kill(SERVER, again=True)),
    "stop-server": Fault("SIGSTOP of a server for 10 s", _stop(SERVER)),
    "restart-server": Fault("SIGTERM of a server, started again", _restart),
    "kill-trainer": Fault("SIGKILL of a trainer", _kill(TRAINER, again=False), alone=True),
    "stop-trainer": Fault("SIGSTOP of a trainer for 10 s", _stop(TRAINER), alone=True),
    "cut-server": Fault("link of a server cut for 10 s", _cut(SERVER)),
    "cut-trainer": Fault("link of a trainer cut for 10 s", _cut(TRAINER), alone=True),
    "slow-trainer": Fault("a trainer that is 5 times slower", options=("--slow", "5")),
    "failing-calls": Fault("1% of calls fail", options=("--failing", "0.01")),
    "full-disk": Fault(
        "disk full at a checkpoint",
        settings={"REFLUID_SERVER_CHECKPOINT_SECONDS": "1"},
        full=True,
    ),
    "server-comes": Fault("a server more", _comes(), steps=_LONG),
    "server-goes": Fault("a server less", _goes(SERVER), steps=_LONG),
    "first-goes": Fault("the first server, which decides, less", _goes(0), steps=_LONG),
    "comes-without-server": Fault(
        "SIGKILL of a server as another one comes, started again", _comes(SERVER), steps=_LONG
    ),
    "comes-without-first": Fault(
        "SIGKILL of the first server as another one comes, started again", _comes(0), steps=_LONG
    ),
    "comes-twice": Fault(
        "SIGKILL of a server that comes, started again", _comes(MORE), steps=_LONG
    ),
    "comes-without-trainer": Fault(
        "SIGKILL of a trainer as a server comes", _comes(TRAINER), alone=True, steps=_LONG
    ),
}
