"""What happens to jobs with servers when something fails, on emulated hosts: nothing is lost.

    python -m benchmarks.pserver_faults                     # every fault in every mode
    python -m benchmarks.pserver_faults --modes sync --faults kill-server stop-trainer
    python -m benchmarks.pserver_faults --soak 1200 --faults kill-server  # at random, so long
    python -m benchmarks.pserver_faults --near              # all on this host: shared memory
    python -m benchmarks.pserver_faults --slower 4          # others use this machine: not kept
    python -m benchmarks.pserver_faults --page              # docs/pserver.md from results

Two servers and two trainers run `benchmarks/counting.py` on a host each (network namespaces: needs
root, `ip` and `tc`). Every update is counted in the end; how long the first trainer stood still is
the recovery time. Results are kept in benchmarks/results/pserver_faults.json.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from benchmarks.counted_faults import FAULTS, Fault, NotDone
from benchmarks.counted_jobs import (
    HERE,
    HOSTS,
    SERVERS,
    TRAINERS,
    CountingRun,
    complaint,
    pause,
)
from benchmarks.counting import MODES
from benchmarks.hosts import Hosts, OneHost, allowed

RESULTS, PAGE = HERE / "results" / "pserver_faults.json", HERE.parent / "docs" / "pserver.md"
AT, PATIENCE, ENDING = 30, 150.0, 90.0
MARKS = "<!-- recovery times: python -m benchmarks.pserver_faults -->", "<!-- end -->"


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


def case(
    hosts: Hosts, mode: str, fault: Fault, steps: int | None = None, slower: float = 1.0
) -> tuple[str, float]:
    """(what is wrong, if anything; for how many seconds the first trainer stood still)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = ("--pause", "0.03", *fault.options)
        run = CountingRun(
            hosts, mode, folder, options, fault.settings, steps or fault.steps, slower
        )
        with small_disk(folder, wanted=fault.full):
            try:
                return _case(run, fault)
            finally:
                run.end()


def _case(run: CountingRun, fault: Fault) -> tuple[str, float]:
    times: list[float] = []
    for host in (*SERVERS, *TRAINERS):
        run.start(host)
    until = time.monotonic() + PATIENCE * run.slower

    def look() -> int:
        told = run.told(0)
        if told and told["moment"] not in times:
            times.append(told["moment"])
        return int(told.get("steps", 0))

    # Of the other trainer too: servers wait for one that never came.
    while look() < min(AT, run.steps) or not run.told(1):
        if time.monotonic() > until or run.processes[2].poll() is not None:
            return f"it didn't begin\n{run.logs()}", 0.0
        time.sleep(0.01)
    since = time.time()
    with ThreadPoolExecutor(1) as background:
        happening = background.submit(fault.does, run)
        while any(run.processes[host].poll() is None for host in TRAINERS):
            look()
            if time.monotonic() > until:
                return f"it hangs\n{run.logs()}", 0.0
            time.sleep(0.01)
    try:
        happening.result()
    except NotDone as error:
        return f"{error}\n{run.logs()}", 0.0
    for host in set(run.processes) - set(TRAINERS):
        try:
            run.processes[host].wait(ENDING * run.slower)
        except subprocess.TimeoutExpired:
            return f"server {host} doesn't end\n{run.logs()}", 0.0
    wrong = complaint(
        run.mode, run.steps, {one: run.told(one) for one in (0, 1)}, alone=fault.alone
    )
    return wrong and f"{wrong}\n{run.logs()}", pause(since, times)


# -- all of them --------------------------------------------------------------


def soak(hosts: Hosts, seconds: float, modes: Sequence[str], names: Sequence[str]) -> int:
    """Jobs to which one of these faults happens, one after the other; how many were wrong."""
    until, done, wrong = time.monotonic() + seconds, 0, 0
    while time.monotonic() < until:
        mode, name = random.choice(modes), random.choice(names)
        least = FAULTS[name].steps // 2
        found, paused = case(hosts, mode, FAULTS[name], random.randint(least, 3 * least))
        done, wrong = done + 1, wrong + bool(found)
        print(f"{done:4} {mode:10} {name:21} {paused:5.1f} s  {found or 'all counted'}", flush=True)
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
    given.add_argument("--near", action="store_true", help="on this host; results aren't kept")
    given.add_argument("--slower", type=float, default=1.0, help="all takes so many times as long")
    given.add_argument("--page", action="store_true", help="write the page from kept results")
    asked = given.parse_args()
    if asked.page:
        write_page()
        return 0
    if not allowed():
        sys.exit("hosts can't be emulated here: it needs root, ip, tc and unshare")
    bad = 0
    names = [one for one in asked.faults if not (asked.near and one.startswith("cut-"))]
    with OneHost(HOSTS) if asked.near else Hosts(HOSTS) as hosts:
        if asked.soak:
            return soak(hosts, asked.soak, asked.modes, names)
        for name in names:
            for mode in asked.modes:
                wrong, paused = case(hosts, mode, FAULTS[name], slower=asked.slower)
                print(f"{name:21} {mode:10} {paused:6.1f} s  {wrong or 'all counted'}", flush=True)
                bad += bool(wrong)
                if not wrong and not asked.near and asked.slower == 1.0:
                    kept = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
                    kept.setdefault(name, {})[mode] = round(paused, 1)
                    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    return bad


if __name__ == "__main__":
    sys.exit(main())
