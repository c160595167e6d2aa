"""What happens to jobs with servers when something fails, on emulated hosts: nothing is lost.

    python -m benchmarks.pserver_faults                     # every fault in every mode
    python -m benchmarks.pserver_faults --modes sync --faults kill-server stop-trainer
    python -m benchmarks.pserver_faults --soak 1200         # random kills, so many seconds
    python -m benchmarks.pserver_faults --page              # docs/pserver.md from results

Two servers and two trainers run `benchmarks/counting.py` on a host each (network namespaces: needs
root, `ip` and `tc`). Every update is counted in the end; how long the first trainer stood still is
the recovery time. Results are kept in benchmarks/results/pserver_faults.json.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.counted_jobs import (
    HERE,
    SERVERS,
    TRAINERS,
    CountingRun,
    complaint,
    pause,
)
from benchmarks.counting import MODES
from benchmarks.hosts import Hosts, allowed

RESULTS, PAGE = HERE / "results" / "pserver_faults.json", HERE.parent / "docs" / "pserver.md"
AWAY, STEPS, AT, PATIENCE = 10.0, 150, 30, 150.0
MARKS = "<!-- recovery times: python -m benchmarks.pserver_faults -->", "<!-- end -->"
SERVER, TRAINER = 1, 3  # to whom it happens


Does = Callable[[CountingRun], None]


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


def _nothing(run: CountingRun) -> None:
    del run


@dataclass(frozen=True)
class Fault:
    """What happens to a job, in words too. alone: trainers may make steps without each other."""

    text: str
    does: Does = _nothing
    options: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    alone: bool = False
    full: bool = False


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
}


# -- one case -----------------------------------------------------------------


@contextmanager
def small_disk(folder: Path, *, wanted: bool) -> Iterator[None]:
    """Where it is wanted, what servers keep has 32 KB: a log of a job's beginning fits."""
    kept = folder / "kept"
    kept.mkdir()
    if not wanted:
        yield
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", str(kept)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(kept)], check=True)


def case(hosts: Hosts, mode: str, fault: Fault, steps: int = STEPS) -> tuple[str, float]:
    """(what is wrong, if anything; for how many seconds the first trainer stood still)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = ("--pause", "0.03", *fault.options)
        run = CountingRun(hosts, mode, folder, options, fault.settings, steps)
        with small_disk(folder, wanted=fault.full):
            try:
                return _case(run, fault)
            finally:
                run.end()


def _case(run: CountingRun, fault: Fault) -> tuple[str, float]:
    times: list[float] = []
    for host in (*SERVERS, *TRAINERS):
        run.start(host)
    until = time.monotonic() + PATIENCE

    def look() -> int:
        told = run.told(0)
        if told and told["moment"] not in times:
            times.append(told["moment"])
        return int(told.get("steps", 0))

    while look() < min(AT, run.steps):
        if time.monotonic() > until or run.processes[2].poll() is not None:
            return f"it didn't begin\n{run.logs()}", 0.0
        time.sleep(0.01)
    since = time.time()
    happening = _in_background(fault.does, run)
    while any(run.processes[host].poll() is None for host in TRAINERS):
        look()
        if time.monotonic() > until:
            return f"it hangs\n{run.logs()}", 0.0
        time.sleep(0.01)
    happening.join()
    for host in SERVERS:
        try:
            run.processes[host].wait(90)
        except subprocess.TimeoutExpired:
            return f"server {host} doesn't end\n{run.logs()}", 0.0
    wrong = complaint(
        run.mode, run.steps, {one: run.told(one) for one in (0, 1)}, alone=fault.alone
    )
    return wrong and f"{wrong}\n{run.logs()}", pause(since, times)


def _in_background(does: Does, run: CountingRun) -> threading.Thread:
    thread = threading.Thread(target=does, args=(run,))
    thread.start()
    return thread


# -- all of them --------------------------------------------------------------


def soak(hosts: Hosts, seconds: float) -> int:
    """Jobs in which somebody is killed at random, one after the other; how many were wrong."""
    until, done, wrong = time.monotonic() + seconds, 0, 0
    names = ("kill-server", "restart-server", "kill-trainer")
    while time.monotonic() < until:
        mode, name = random.choice(("sync", "async")), random.choice(names)
        found, paused = case(hosts, mode, FAULTS[name], random.randint(60, 400))
        done, wrong = done + 1, wrong + bool(found)
        print(f"{done:4} {mode:6} {name:16} {paused:5.1f} s  {found or 'all counted'}", flush=True)
    print(f"{done} jobs, {wrong} wrong")
    return wrong


def page(results: Mapping[str, Mapping[str, float]]) -> str:
    """The table of recovery times."""
    lines = ["| | " + " | ".join(MODES) + " |", "|---|" + "---|" * len(MODES)]
    for name, fault in FAULTS.items():
        if name != "nothing" and name in results:
            row = [results[name].get(mode) for mode in MODES]
            shown = ["" if one is None else f"{one:.1f} s" for one in row]
            lines.append(f"| {fault.text} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def write_page() -> None:
    text, results = PAGE.read_text(), json.loads(RESULTS.read_text())
    begin, rest = text.split(MARKS[0])
    _, end = rest.split(MARKS[1])
    PAGE.write_text(f"{begin}{MARKS[0]}\n{page(results)}\n{MARKS[1]}{end}")


def main() -> int:
    given = argparse.ArgumentParser(description="Faults of jobs with servers, every update counted")
    given.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    given.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    given.add_argument("--soak", type=float, help="kill at random for so many seconds")
    given.add_argument("--page", action="store_true", help="write the page from kept results")
    asked = given.parse_args()
    if asked.page:
        write_page()
        return 0
    if not allowed():
        sys.exit("hosts can't be emulated here: it needs root, ip, tc and unshare")
    bad = 0
    with Hosts(4) as hosts:
        if asked.soak:
            return soak(hosts, asked.soak)
        for name in asked.faults:
            for mode in asked.modes:
                wrong, paused = case(hosts, mode, FAULTS[name])
                print(f"{name:16} {mode:10} {paused:6.1f} s  {wrong or 'all counted'}", flush=True)
                bad += bool(wrong)
                if not wrong:
                    kept = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
                    kept.setdefault(name, {})[mode] = round(paused, 1)
                    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    return bad


if __name__ == "__main__":
    sys.exit(main())
