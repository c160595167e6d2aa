"""Training while other processes hold the cores: digits per second, by how threads are chosen.

    python benchmarks/loaded.py                  # six busy processes, five rounds of 15 s each
    python benchmarks/loaded.py --busy 0         # a quiet machine: nothing may be lost
    python benchmarks/loaded.py --record         # writes the table of docs/benchmarks.md

Each way trains the network of examples/recognize_digits.py in a process of its own. They take
turns; one that isn't at turn does nothing. The exit status is 1 where refluid's own choice is
slower than both one thread and all threads, by more than a tenth.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

PAGE = ROOT / "docs" / "benchmarks.md"
BATCH, BATCHES = 64, 32
OWN, ONE, ALL = "refluid's choice", "one thread", "all threads"
WAYS: Mapping[str, Mapping[str, str]] = {
    OWN: {},
    ONE: {"OMP_NUM_THREADS": "1"},
    ALL: {"FLAGS_refluid_adaptive_threads": "0"},
    "all threads, not spinning": {
        "FLAGS_refluid_adaptive_threads": "0",
        "OMP_WAIT_POLICY": "passive",
    },
}
_CHOSEN = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
_ALLOWED = 0.9


def work() -> None:
    """Trains for as many seconds as each line of standard input says; answers digits per second."""
    import numpy as np
    import recognize_digits as digits

    net = digits.build_network()
    executor = digits.fluid.Executor(digits.fluid.CPUPlace())
    executor.run(net.startup)
    random = np.random.default_rng(1)
    feeds = [
        {
            "image": random.uniform(-1, 1, (BATCH, 1, 28, 28)).astype("float32"),
            "label": random.integers(0, 10, (BATCH, 1)),
        }
        for _ in range(BATCHES)
    ]
    for line in sys.stdin:
        start, steps = time.perf_counter(), 0
        while time.perf_counter() - start < float(line):
            feed = feeds[steps % BATCHES]
            executor.run(net.main, feed=feed, fetch_list=[net.loss, net.accuracy])
            steps += 1
        print(steps * BATCH / (time.perf_counter() - start), flush=True)


class Way:
    """A process that trains in one of the ways when told to."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        given = {name: text for name, text in os.environ.items() if name not in _CHOSEN}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--work"],
            env=given | settings,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def train(self, seconds: float) -> float:
        """Digits per second. Raises RuntimeError where the process has ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(seconds, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("a training process ended; its error is above")
        return float(answer)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that compute without end, meanwhile."""
    command = [sys.executable, "-c", "while True: pass"]
    started = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def measure(count: int, seconds: float, rounds: int) -> dict[str, list[float]]:
    """Digits per second of each way, by round."""
    ways = {name: Way(settings) for name, settings in WAYS.items()}
    try:
        for way in ways.values():
            way.train(1.0)  # the network is built and its step recorded
        with busy(count):
            found: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(rounds):
                for name, way in ways.items():
                    found[name].append(way.train(seconds))
                    print(f"{name}: {found[name][-1]:,.0f} digits/s", file=sys.stderr, flush=True)
    finally:
        for way in ways.values():
            way.end()
    return found


def table(count: int, found: Mapping[str, Sequence[float]]) -> str:
    """The results in Markdown: medians and ranges."""
    from benchmarks.machine import facts

    one = statistics.median(found[ONE])
    rows = [
        f"| {name} | {statistics.median(all_):,.0f} ({min(all_):,.0f} to {max(all_):,.0f}) "
        f"| {statistics.median(all_) / one:.2f} |"
        for name, all_ in found.items()
    ]
    head = f"| {count} busy processes beside it | digits/s | of one thread's |\n|---|---|---|\n"
    caption = ", ".join(f"{name} {value}" for name, value in facts("cpu").items())
    return head + "\n".join(rows) + f"\n\nMeasured: {caption}."


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Train while other processes hold the cores.")
    parser.add_argument("--busy", type=int, default=6, help="processes that compute beside it")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each turn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true", help=f"update docs/{PAGE.name}")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        work()
        return 0
    found = measure(options.busy, options.seconds, options.rounds)
    text = table(options.busy, found)
    print(text)
    if options.record:
        from benchmarks.report import record

        record(PAGE, "loaded", text)
    medians = {name: statistics.median(all_) for name, all_ in found.items()}
    return 0 if medians[OWN] >= _ALLOWED * max(medians[ONE], medians[ALL]) else 1


if __name__ == "__main__":
    sys.exit(main())
