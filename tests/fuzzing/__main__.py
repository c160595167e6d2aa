"""`python -m tests.fuzzing --seconds 3600`: random programs, all tiers against the interpreted."""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
import time

import torch

from tests.fuzzing.fuzzer import fuzz, shrunk
from tests.fuzzing.programs import KINDS
from tests.fuzzing.table import rows


def main() -> int:
    """Prints each finding with the command that repeats it; 1 if there was any."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--programs", type=int, help="stop after so many")
    parser.add_argument("--seed", type=int, help="of the first program; the next has the next")
    parser.add_argument("--only", default="", choices=["", *KINDS], help="programs fed so")
    parser.add_argument("--without", nargs="*", default=[], help="layers that are not drawn")
    parser.add_argument("--compiled", action="store_true", help="compiled, beside interpreted")
    parser.add_argument("--shrink", action="store_true", help="make what is found smaller")
    parser.add_argument("--layers", action="store_true", help="say how often each layer was used")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("refluid").setLevel(logging.ERROR)
    seed = int(time.time()) % 10**9 * 100 if asked.seed is None else asked.seed
    count = itertools.count(seed) if asked.programs is None else range(seed, seed + asked.programs)
    for name in asked.without:
        del rows()[name]
    print(f"first seed {seed}", flush=True)
    began = time.monotonic()
    tally = fuzz(
        iter(count),
        seconds=asked.seconds,
        only=asked.only,
        compiled=asked.compiled,
        starting=_starting,
    )
    spent = time.monotonic() - began
    print(
        f"{tally.programs} programs, {tally.steps} steps, {len(tally.findings)} findings in "
        f"{spent:.0f} s: {tally.programs / spent * 3600:.0f} programs an hour"
    )
    print("ways:", ", ".join(f"{name} {number}" for name, number in tally.ways.most_common()))
    if asked.layers:
        for name in rows():
            print(f"  {name}: {tally.layers[name]}")
        for text, number in tally.skipped.most_common(60):
            print(f"  not built {number} times: {text}")
    if asked.shrink:
        for finding in tally.findings[:3]:
            print("shrunk:", shrunk(finding).text)
    return bool(tally.findings)


def _starting(text: str) -> None:
    """Kept in the terminal's title line: the seed that was running when the process died."""
    if sys.stderr.isatty():
        print(f"\r{text} ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
