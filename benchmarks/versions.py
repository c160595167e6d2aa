"""Another version of refluid against this one: the same networks, weights and data, in turns.

git worktree add ../before COMMIT
python -m benchmarks.versions ../before --workloads lstm_lod tagger seq2seq word2vec bert
"""

from __future__ import annotations

import argparse
import statistics
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from benchmarks.suite.rivals import REFLUID, RIVALS, ROOT, Running, environment, scratch
from benchmarks.suite.sides.side import Options
from benchmarks.suite.worker import FEEDS, write_feeds
from benchmarks.suite.workloads import WORKLOADS

PATIENCE = 900.0


def compare(before: Path, name: str, asked: argparse.Namespace) -> tuple[float, float]:
    """Medians of a step's seconds: of the other version, and of this one."""
    work, sources = WORKLOADS[name], {"before": before / "src", "now": ROOT / "src"}
    options = Options(threads=asked.threads, clock=asked.clock)
    with scratch() as folder, ExitStack() as stack:
        place = Path(folder)
        write_feeds(place / FEEDS, work.feeds())
        sides: dict[str, Running] = {}
        for side, source in sources.items():
            paths = {"PYTHONPATH": f"{source}:{ROOT}"}
            setting = environment(RIVALS[REFLUID], asked.threads, asked.tier, None, "") | paths
            log = place / f"{side}.log"
            sides[side] = stack.enter_context(Running(RIVALS[REFLUID], setting, log, PATIENCE))
            sides[side].ask(
                "build", kind="refluid", workload=name, options=asdict(options), folder=folder
            )
        blocks: dict[str, list[float]] = {side: [] for side in sides}
        steps = {
            side: max(
                2,
                round(
                    asked.seconds / running.ask("warm", seconds=asked.seconds, least=8, most=200)
                ),
            )
            for side, running in sides.items()
        }
        for turn in range(asked.blocks):
            for side in list(sides)[:: 1 if turn % 2 else -1]:
                blocks[side].append(statistics.median(sides[side].ask("block", steps=steps[side])))
    return statistics.median(blocks["before"]), statistics.median(blocks["now"])


def main() -> None:
    """Prints a line per workload: milliseconds of both, and before over now."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("before", type=Path, help="a checkout of the other version")
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--blocks", type=int, default=7, help="rounds")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a block")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--tier", default="auto")
    parser.add_argument("--clock", default="wall", choices=("wall", "cpu"))
    asked = parser.parse_args()
    for name in asked.workloads:
        before, now = compare(asked.before.resolve(), name, asked)
        print(
            f"{name:12} {before * 1e3:9.3f} ms {now * 1e3:9.3f} ms  before/now {before / now:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
