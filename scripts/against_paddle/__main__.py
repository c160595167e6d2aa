"""Runs the comparison and prints what differs; the exit status is 1 where anything does."""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from rich.progress import track

from benchmarks.suite.peers import how_to_install
from benchmarks.suite.rivals import RIVALS, ROOT
from scripts.against_paddle.case import Case, Outcome, differences
from scripts.against_paddle.cases import recorded, variations, with_gradients
from scripts.against_paddle.declared import declarations
from scripts.against_paddle.known import WITHOUT_SEQUENCES, why_not_compared
from scripts.against_paddle.networks import networks

PADDLE = RIVALS["paddle2"]
RTOL = 1e-4
Run = tuple[Case, Outcome]


def refluids(options: argparse.Namespace) -> list[Run]:
    """All cases, with refluid's results."""
    if options.networks:
        first = options.seed * 10_000
        made = networks(range(first, first + options.networks))
        tried = track(made, "refluid", total=options.networks, transient=True)
        return [one for one in tried if one is not None]
    folder, words, changes = options.recordings, options.only, options.changes
    random = Random(options.seed)
    if options.declared:
        return list(track(declarations(folder, words, changes, random), "refluid", transient=True))
    found = [(o, r) for o, r in recorded(folder) if not words or any(w in o for w in words)]
    runs: list[Run] = []
    for origin, recording in track(found, "refluid", transient=True):
        runs += with_gradients(variations(origin, recording, changes, random))
    return runs


def paddles(cases: Sequence[Case]) -> list[Outcome]:
    """What paddle says. Raises CalledProcessError where it fails as a whole."""
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "cases"), Path(folder, "outcomes")
        given.write_bytes(pickle.dumps(list(cases)))
        command = [str(PADDLE.python), "-m", "scripts.against_paddle.paddle_side"]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOG_minloglevel": "3"}
        process = subprocess.Popen(
            [*command, str(given), str(made)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        for _ in track(process.stdout, "paddle", total=len(cases), transient=True):
            pass
        if process.wait():
            raise subprocess.CalledProcessError(process.returncode, command)
        outcomes: list[Outcome] = pickle.loads(made.read_bytes())
    return outcomes


def judged(runs: Sequence[Run], outcomes: Sequence[Outcome]) -> Iterator[tuple[str, Case, str]]:
    """Per case: a verdict, the case, and what differs or the error."""
    for (case, ours), theirs in zip(runs, outcomes, strict=True):
        if ours.error and theirs.error:
            yield "both refuse", case, ""
        elif why_not_compared(case.operators, case.change):
            yield "not compared", case, ""
        elif ours.error:
            yield "refluid alone refuses", case, ours.error.splitlines()[0]
        elif theirs.error:
            yield "paddle alone refuses", case, " ".join(theirs.error.split())[-200:]
        else:
            what = differences(ours, theirs, RTOL)
            if not WITHOUT_SEQUENCES.isdisjoint(case.operators):
                what = [one for one in what if "sequences" not in one]
            yield ("differ" if what else "agree"), case, "; ".join(what)


def main() -> int:
    parser = argparse.ArgumentParser(prog="against_paddle", description=__doc__)
    parser.add_argument("recordings", type=Path, nargs="?", help="the folder ops of the recordings")
    parser.add_argument("--changes", type=int, default=4, help="of each recorded run (4)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=(), help="recordings whose name has a word")
    parser.add_argument(
        "--networks", type=int, default=0, help="compare so many random networks instead"
    )
    parser.add_argument("--refused", action="store_true", help="list what one side alone refuses")
    parser.add_argument(
        "--declared", action="store_true", help="compare declared shapes; sizes are unknown"
    )
    options = parser.parse_args()
    if options.recordings is None and not options.networks:
        parser.error("give the folder of recordings, or --networks")
    if not PADDLE.installed:
        parser.error(how_to_install(PADDLE))
    runs = refluids(options)
    verdicts = list(judged(runs, paddles([case for case, _ in runs])))
    for verdict, case, what in sorted(verdicts, key=lambda one: one[0]):
        if verdict == "differ" or (options.refused and "alone" in verdict):
            print(f"{verdict}: {case}: {what}")
    counts = Counter(verdict for verdict, _, _ in verdicts)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
