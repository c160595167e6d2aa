"""What happens to collective jobs when something fails, on emulated hosts: all learn of it soon.

    python -m benchmarks.collective_faults                    # all, without and with restarts
    python -m benchmarks.collective_faults --faults kill stop
    python -m benchmarks.collective_faults --record           # also into docs/collective.md

Two hosts (network namespaces: needs root, `ip` and `tc`) with two trainers each run
`benchmarks/faulted.py` under `refluid launch`. Without restarts the job must end in time, with an
error that names who did not come, on both hosts; with them it must end with the losses of an
undisturbed run, bit for bit. In both cases no process may be left on a host.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.faulted import STEPS
from benchmarks.faulted_jobs import EACH, EXCHANGE, HERE, MEETING, PORT, FaultyRun
from benchmarks.hosts import Hosts, allowed
from benchmarks.report import record

PAGE = HERE.parent / "docs" / "collective.md"
SIZE = 2 * EACH
# Seconds: a host is away; the launchers' ends.
AWAY, GRACE = 8, 45
AT, PATIENCE = 20, 180.0
VICTIM = 3  # of the second host


Does = Callable[[FaultyRun], None]


def _signal(what: signal.Signals) -> Does:
    return lambda run: os.kill(run.trainer(VICTIM), what)


def _cut(run: FaultyRun) -> None:
    run.hosts.cut(1)
    if run.restarts:
        time.sleep(AWAY)
        run.hosts.mend(1)


def _lose_host(run: FaultyRun) -> None:
    for one in run.hosts.processes(1):
        os.kill(one, signal.SIGKILL)
    run.launchers[1].wait()
    if run.restarts:
        run.start(1)


def _both(run: FaultyRun) -> None:
    for host in range(2):
        run.start(host)


def _late(run: FaultyRun) -> None:
    run.start(0)
    time.sleep(AWAY)
    run.start(1)


def _never(run: FaultyRun) -> None:
    run.start(0)


def _wrong(run: FaultyRun) -> None:
    nobody = run.hosts.addresses[0].rpartition(".")[0] + ".250"
    run.start(0)
    run.start(1, [nobody, run.hosts.addresses[1]])


def _taken(run: FaultyRun) -> None:
    listens = f"import socket; s = socket.create_server(('', {PORT})); print(flush=True); input()"
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    other = run.hosts.start(0, [sys.executable, "-c", listens], {}, **ends)
    assert other.stdout is not None
    other.stdout.readline()
    _both(run)
    run.launchers[0].wait(MEETING)
    other.kill()
    other.communicate()


@dataclass(frozen=True)
class HostFault:
    """What happens to a job, in words too.

    begins: starts it. does: to a job that trains. names: by host, what must be said where there is
    no restart. within: seconds until both launchers end. ends: whether the job ends well even so.
    again: whether it is run with restarts too.
    """

    text: str
    names: Mapping[int, str]
    within: float
    does: Does | None = None
    begins: Does = _both
    again: bool = True
    well: bool = False


GONE = r"trainers? [23](, 3)? of 4 went away"
ABSENT = r"trainers? [23](, 3)? of 4 did not come, or did nothing for too long"
AFAR = r"trainers? [01](, 1)? of 4 did not come, or did nothing for too long"
ENDED = r"trainer 3 was ended by signal 9"
LAUNCHER = "the launcher of the first host did not come to"
MISSING = r"can't reach those of the other hosts, .* 1/2 clients joined"
FAULTS = {
    "nothing": HostFault("nothing", {}, PATIENCE, well=True),
    "kill": HostFault("SIGKILL of a trainer", {0: GONE, 1: ENDED}, GRACE, _signal(signal.SIGKILL)),
    "stop": HostFault(
        "SIGSTOP of a trainer", {0: ABSENT, 1: ABSENT}, EXCHANGE + GRACE, _signal(signal.SIGSTOP)
    ),
    "cut": HostFault("a host's link goes down", {0: ABSENT, 1: AFAR}, EXCHANGE + GRACE, _cut),
    "host": HostFault("SIGKILL of all of a host", {0: GONE}, GRACE, _lose_host),
    "taken": HostFault(
        "a port in use",
        {0: rf"can't listen at \S+:{PORT}.*--started_port", 1: LAUNCHER},
        MEETING + GRACE,
        begins=_taken,
        again=False,
    ),
    "wrong": HostFault(
        "a wrong address",
        {0: MISSING, 1: rf"{LAUNCHER} \S+\.250:"},
        MEETING + GRACE,
        begins=_wrong,
        again=False,
    ),
    "never": HostFault(
        "a host never comes", {0: MISSING}, MEETING + GRACE, begins=_never, again=False
    ),
    "late": HostFault("a host comes late", {}, PATIENCE, begins=_late, well=True, again=False),
}


def case(
    hosts: Hosts, fault: HostFault, usual: dict[int, Any], *, restarts: int
) -> tuple[str, float]:
    """(what is wrong, if anything; seconds from the fault until the launchers ended).

    usual: the losses of each trainer in an undisturbed run; empty where there was none.
    """
    with tempfile.TemporaryDirectory() as name:
        run = FaultyRun(hosts, Path(name), restarts)
        try:
            wrong, seconds = _case(run, fault)
            if not wrong and (fault.well or restarts):
                wrong = _other_losses(run, usual)
            if wrong:
                wrong += "".join(
                    f"\n--- host {host}\n{run.said(host)[-6000:]}" for host in range(2)
                )
            return wrong, seconds
        finally:
            run.end()
            hosts.mend(1)


def _case(run: FaultyRun, fault: HostFault) -> tuple[str, float]:
    begun = time.monotonic()
    fault.begins(run)
    if fault.does is not None:
        if not _waited(lambda: len(run.steps(VICTIM)) >= AT, PATIENCE):
            return "it didn't begin", 0.0
        begun = time.monotonic()
        fault.does(run)
    well = fault.well or run.restarts
    within = PATIENCE if well else fault.within
    ended = _waited(lambda: all(one.poll() is not None for one in run.launchers.values()), within)
    seconds = time.monotonic() - begun
    if not ended:
        return f"it hangs: {[one.poll() for one in run.launchers.values()]}", seconds
    left = [one for host in range(2) for one in run.hosts.processes(host)]
    if left:
        return f"processes are left: {left}", seconds
    statuses = [one.returncode for one in run.launchers.values()]
    if bool(well) is any(statuses):
        return f"the launchers ended with {statuses}", seconds
    if well:
        return "", seconds
    missed = [text for host, text in fault.names.items() if not re.search(text, run.said(host))]
    return f"nobody says {missed}" if missed else "", seconds


def _waited(until: Callable[[], bool], most: float) -> bool:
    end = time.monotonic() + most
    while not until():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _other_losses(run: FaultyRun, usual: dict[int, Any]) -> str:
    found = {rank: run.steps(rank) for rank in range(SIZE)}
    if any(set(one) != set(range(1, STEPS + 1)) for one in found.values()):
        return f"steps are missing: {[len(one) for one in found.values()]}"
    if not usual:
        usual.update(found)
    if found != usual:
        return "the losses aren't those of an undisturbed run"
    return ""


def page(found: Mapping[str, Mapping[int, float]]) -> str:
    """The table: seconds until all have ended, or trained on to the end."""
    lines = ["| what happens | all have ended, with an error | with `--max_restarts 1` |"]
    lines.append("|---|---|---|")
    for name, fault in FAULTS.items():
        if name not in found or name == "nothing":
            continue
        took = {restarts: f"{seconds:.0f} s" for restarts, seconds in found[name].items()}
        if fault.well:
            told = "it is waited for; the same losses", "the same"
        else:
            told = took[0], f"the same losses, {took[1]}" if 1 in took else ""
        lines.append(f"| {fault.text} | {told[0]} | {told[1]} |")
    return "\n".join(lines)


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    given.add_argument("--record", action="store_true", help="write docs/collective.md's table")
    asked = given.parse_args()
    if not allowed():
        sys.exit("hosts can't be emulated here: it needs root, ip, tc and unshare")
    found: dict[str, dict[int, float]] = {}
    usual: dict[int, Any] = {}
    bad = 0
    with Hosts(2) as hosts:
        for name in dict.fromkeys(["nothing", *asked.faults]):
            for restarts in (0, 1) if FAULTS[name].again else (0,):
                wrong, seconds = case(hosts, FAULTS[name], usual, restarts=restarts)
                how = f"{restarts} restarts"
                print(f"{name:8} {how} {seconds:6.1f} s  {wrong or 'as it should'}", flush=True)
                found.setdefault(name, {})[restarts] = seconds
                bad += bool(wrong)
    if asked.record and not bad:
        record(PAGE, "faults", page(found))
    return bad


if __name__ == "__main__":
    sys.exit(main())
