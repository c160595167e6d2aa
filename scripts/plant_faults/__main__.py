"""python -m scripts.plant_faults RECORDINGS [--seed N] [--only MODEL ...] [--json FILE]

Plants a fault of each kind in each recorded model, prints each with its seed, and a table of those
found. Exit status 1 if fewer than 99% are.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from refluid.verify.conditioning import Repetitions
from refluid.verify.judge import judge
from refluid.verify.recordings import find_recordings, load_recording
from refluid.verify.replay import compare, repeating, run
from scripts.plant_faults.kinds import KINDS
from scripts.plant_faults.trial import Planted, beginning, plant, table

ENOUGH = 0.99


def main() -> int:
    """Runs the command line; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--json", type=Path, help="write each planted fault as a line of it")
    arguments = parser.parse_args()
    planted: dict[tuple[str, str], Planted | None] = {}
    only = arguments.only or [path.name for path in find_recordings([arguments.recordings])]
    for path in find_recordings([arguments.recordings / name for name in only]):
        if path.is_dir():
            planted |= plant_all(path, arguments.seed, arguments.json)
    print(table(planted))
    known = [one for one in planted.values() if one is not None]
    found = sum(one.found for one in known)
    print(f"{found} of {len(known)} found, seed {arguments.seed}")
    return 0 if known and found >= ENOUGH * len(known) else 1


def plant_all(path: Path, seed: int, out: Path | None) -> dict[tuple[str, str], Planted | None]:
    """A fault of each kind in one model; none in those whose results are random or fail anyway."""
    recording = load_recording(path)
    if recording.random:
        return {}
    short = beginning(recording)
    base = run(short)
    verdict = judge(compare(short, base), short.spreads, Repetitions(short, repeating()))
    if not verdict.passed:
        print(f"{path.name} fails without a fault: {verdict.reason}")
        return {}
    planted = {}
    for kind in KINDS:
        one = plant(recording, base, kind, seed)
        planted[path.name, kind] = one
        if one is None:
            print(f"{path.name}: no {kind} to plant", flush=True)
            continue
        mark = "found " if one.found else "MISSED"
        print(f"{mark} {path.name}: {one.what} (alters {one.altered:.0e}) {one.reason}", flush=True)
        if out is not None:
            with out.open("a") as file:
                file.write(json.dumps(asdict(one)) + "\n")
    return planted


if __name__ == "__main__":
    sys.exit(main())
