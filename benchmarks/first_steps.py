"""The first step of a process: eager PyTorch's, and refluid's with compiled loops kept or not.

    python -m benchmarks.first_steps                      # five rounds, networks with loops
    python -m benchmarks.first_steps --workloads ncf --record   # writes docs/benchmarks.md's table

Each is a process of its own, made anew in each round; they take turns. What the loops are kept for
is that numba compiles nothing: without, a process begins with a copy of refluid that has no code
but Python's, and an empty folder as the user's own. Run `refluid prepare` before.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.suite.rivals import EAGER, REFLUID, RIVALS, Running, environment, scratch
from benchmarks.suite.sides.side import Options
from benchmarks.suite.worker import FEEDS, write_feeds
from benchmarks.suite.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
USUAL = ("lstm", "lstm_lod", "tagger", "seq2seq", "ctr", "deepfm", "ncf", "word2vec")
KEPT, FRESH = "kept", "nothing kept"
WAYS = (EAGER, KEPT, FRESH)

_CODE = "*.so", "*.nbi", "*.nbc"  # what numba and the linker make
_PATIENCE = 300.0


def first_step(workload: str, way: str, folder: Path) -> float:
    """Seconds, of a process that begins with what this way leaves it."""
    rival = RIVALS[EAGER if way == EAGER else REFLUID]
    given = environment(rival, 0, "auto", None, "")
    if way == FRESH:
        shutil.rmtree(folder / FRESH, ignore_errors=True)
        source, home = folder / FRESH / "src", folder / FRESH / "home"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns(*_CODE))
        home.mkdir()
        given |= {"HOME": str(home), "PYTHONPATH": f"{ROOT}:{source}"}
    with Running(rival, given, folder / "log", _PATIENCE) as process:
        process.build(workload, Options(variant=rival.variant), folder)
        seconds: float = process.ask("losses", count=1)["first_step"]
    return seconds


def measure(workload: str, rounds: int) -> Mapping[str, Sequence[float]]:
    """Seconds of the first step by way and round."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    with scratch() as text:
        folder = Path(text)
        write_feeds(folder / FEEDS, WORKLOADS[workload].feeds())
        first_step(workload, KEPT, folder)  # saves the weights that all begin with
        for turn in range(rounds):
            for way in (*WAYS[turn % len(WAYS) :], *WAYS[: turn % len(WAYS)]):
                found[way].append(first_step(workload, way, folder))
    return found


def row(workload: str, found: Mapping[str, Sequence[float]]) -> str:
    """Of the table: medians, with the lowest and highest."""
    cells = [
        f"{statistics.median(one):.2f} ({min(one):.2f}–{max(one):.2f})" for one in found.values()
    ]
    return f"| {WORKLOADS[workload].title} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the first step of processes.")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=USUAL, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true", help=f"update docs/{PAGE.name}")
    options = parser.parse_args()
    lines = [
        "| first step, seconds | PyTorch eager | refluid, loops kept | nothing kept |",
        "|---|---|---|---|",
    ]
    print("\n".join(lines))
    for workload in options.workloads:
        lines.append(row(workload, measure(workload, options.rounds)))
        print(lines[-1], flush=True)
    if options.record:
        from benchmarks.machine import facts
        from benchmarks.report import record

        caption = ", ".join(f"{name} {value}" for name, value in facts("cpu").items())
        record(PAGE, "first steps", "\n".join(lines) + f"\n\nMeasured: {caption}.")


if __name__ == "__main__":
    main()
