"""Tuning beside exhaustive search: `python benchmarks/tuning.py [NAMES] [--record]`.

Each script of benchmarks/tuned_scripts is tuned; then every combination of all that applies to it
is measured, in an order of chance, for as long as `--limit` says. What both found runs beside each
other, and beside the default, in turns. `--record` keeps the results beside those of other scripts
and machines (`results/tuning.json`), and writes the table of docs/tune.md. `--learned` is where
what was learned of the machine is kept from one script to the next, as `refluid tune` does.
`--missing` leaves out scripts of which a result is kept from this processor and version: what was
interrupted goes on. `--link` has trainers meet over a loopback of that rate (needs root, `ip` and
`tc`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.machine import facts
from benchmarks.report import record
from refluid.engine.choices import NONE, Choices
from refluid.tune.bench import Sessions, started_with
from refluid.tune.doctor.host import read_host
from refluid.tune.learned import Learned
from refluid.tune.ratios import Compared, difference
from refluid.tune.search import BlockFailed, Search
from refluid.tune.session import Script
from refluid.tune.space import Proposal, TrialKind, applicable
from refluid.tune.tuner import tune
from refluid.tune.worth import Situation

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "tune.md"
RESULTS = HERE / "results" / "tuning.json"
_BLOCKS, _SECONDS, _LEAST = 2, 0.15, 8
_ROUNDS = 9
# Of scripts in several processes, how many.
_TRAINERS = {"fleet": 2}
# So many combinations follow one another by what their process is started with.
_CHUNK = 64
_LINKED = "BENCHMARKS_LINK"
_SAME = ("machine", "refluid")


@dataclass(frozen=True)
class Result:
    """One script. combinations: of all that applies; measured: how many of them were, in
    exhaustive_seconds. tuned: time of its steps beside the default's, best: of the best
    combination, beside: tuned beside that; each with its range. found, fastest: the choices."""

    script: str
    combinations: int
    measured: int
    tuned: list[float]
    best: list[float]
    beside: list[float]
    tuning_seconds: float
    exhaustive_seconds: float
    found: str
    fastest: str

    @property
    def whole_search(self) -> float:
        """Seconds that measuring every combination would take, at the pace of those measured."""
        return self.exhaustive_seconds * self.combinations / max(1, self.measured)


def combinations(planned: Sequence[Proposal]) -> list[Choices]:
    """Every one of what can be tried, in an order of chance."""
    names = list(dict.fromkeys(one.side for one in planned))
    sides = [[None, *(one for one in planned if one.side == name)] for name in names]
    every = []
    for chosen in itertools.product(*sides):
        choices = NONE
        for one in chosen:
            choices = one.on(choices) if one else choices
        every.append(choices)
    random.Random(0).shuffle(every)
    chunks = (every[begin : begin + _CHUNK] for begin in range(0, len(every), _CHUNK))
    return [
        one for chunk in chunks for one in sorted(chunk, key=lambda one: repr(started_with(one)))
    ]


def exhaustive(
    sessions: Sessions, every: Sequence[Choices], tolerance: float, limit: float, *, live: bool
) -> tuple[Choices, int]:
    """The combination with the shortest steps whose losses are those of the default, and how many
    were measured in so many seconds. live: as the loop goes on, with its readers."""
    deadline = time.monotonic() + limit
    usual = sessions.block(NONE, _LEAST, live=live)
    steps = max(_LEAST, math.ceil(_SECONDS / usual.seconds))
    best, shortest, count = NONE, math.inf, 0
    for choices in every:
        if time.monotonic() > deadline:
            break
        count += 1
        try:
            blocks = [sessions.block(choices, steps, live=live) for _ in range(_BLOCKS)]
        except BlockFailed:
            continue
        seconds = min(one.seconds for one in blocks)
        if seconds < shortest and difference(usual.losses, blocks[0].losses) <= tolerance:
            best, shortest = choices, seconds
    return best, count


def measured(name: str, budget: float, limit: float, learned: Learned) -> Result:
    """Both searches for one script, and both results side by side."""
    path = HERE / "tuned_scripts" / f"{name}.py"
    script = Script([str(path)], trainers=_TRAINERS.get(name, 1), kept=learned.compiled())
    outcome = tune(script, budget, _quiet, learned)
    sessions = Sessions(script, _quiet)
    try:
        start = time.monotonic()
        planned = applicable(Situation(outcome.seen, outcome.diagnosis))
        every = combinations(planned)
        tolerance = max(one.row.numbers.value for one in planned)
        live = any(one.row.trial is TrialKind.LIVE for one in planned)
        best, count = exhaustive(sessions, every, tolerance, limit, live=live)
        seconds = time.monotonic() - start
        side_by_side = Search(sessions, math.inf)
        pairs = ((NONE, outcome.best), (NONE, best), (best, outcome.best))
        tuned, fastest, beside = (
            _figures(side_by_side.compare(one, other, _ROUNDS, patient=True, live=live))
            for one, other in pairs
        )
    finally:
        sessions.close()
    return Result(
        name, len(every), count, tuned, fastest, beside, outcome.seconds, seconds,
        _text(outcome.best), _text(best),
    )  # fmt: skip


def keep(result: Result, where: dict[str, str]) -> None:
    """Puts a result in the place of an older one of the same script and processor."""
    others = [one for one in kept() if _whose(one) != (result.script, where["machine"])]
    every = sorted([*others, {"result": asdict(result), "facts": where}], key=_whose)
    RESULTS.write_text(json.dumps(every, indent=1) + "\n")


def kept() -> list[dict[str, Any]]:
    """All results, each with the facts of its machine."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else []


def recorded(where: dict[str, str]) -> set[str]:
    """The scripts with a result of this processor by this version."""
    same = [one for one in kept() if all(one["facts"][key] == where[key] for key in _SAME)]
    return {one["result"]["script"] for one in same}


def _whose(one: dict[str, Any]) -> tuple[str, str]:
    return one["result"]["script"], one["facts"]["machine"]


def table(every: Sequence[dict[str, Any]]) -> str:
    """Results as a table of Markdown, machine by machine."""
    lines = [
        "| script | combinations | tuned / default | best / default | tuned / best | tuning, s "
        "| whole search, s | found |",
        "|---|---|---|---|---|---|---|---|",
    ]
    machines = dict.fromkeys(one["facts"]["machine"] for one in every)
    for machine in machines:
        lines.append(f"| **{machine}** | | | | | | | |")
        for one in every:
            if one["facts"]["machine"] == machine:
                lines.append(_row(Result(**one["result"])))
    taken = sorted({one["facts"]["date"] for one in every})
    versions = sorted({one["facts"]["refluid"] for one in every})
    return "\n".join(lines) + f"\n\nMeasured: {', '.join(taken)}; refluid {', '.join(versions)}."


def _row(result: Result) -> str:
    ratios = (result.tuned, result.best, result.beside)
    figures = [f"{ratio:.2f} ({low:.2f} to {high:.2f})" for ratio, low, high in ratios]
    search = f"{result.whole_search:,.0f} ({result.measured} measured)"
    cells = [result.script, f"{result.combinations:,}", *figures]
    cells += [f"{result.tuning_seconds:.0f}", search, result.found.replace("_", "\\_")]
    return f"| {' | '.join(cells)} |"


def _figures(found: Compared) -> list[float]:
    return [found.ratio, found.low, found.high]


def _text(choices: Choices) -> str:
    items = (item for values in choices.values.values() for item in values.items())
    return ", ".join(f"{name}={value}" for name, value in items) or "nothing"


def _quiet(_text: str) -> None:
    pass


def _over_a_link(rate: str) -> None:
    """Begins this program anew where the loopback has that rate; what others send isn't shaped."""
    shape = f"tc qdisc add dev lo root tbf rate {rate} burst 128kb latency 20ms"
    shell = f'ip link set lo up && {shape} && exec "$@"'
    command = ["unshare", "-n", "sh", "-c", shell, "sh", sys.executable, *sys.argv]
    os.execvpe(command[0], command, {**os.environ, _LINKED: rate})


def main() -> None:
    names = sorted(one.stem for one in (HERE / "tuned_scripts").glob("[a-z]*.py"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*names, []], help="scripts; all by default")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for tuning one")
    parser.add_argument("--record", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--learned", type=Path, help="folder; else one that is taken away")
    parser.add_argument("--link", default="", help="rate of the loopback, such as 500mbit")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds of every search")
    parser.add_argument("--missing", action="store_true", help="only what isn't recorded yet")
    asked = parser.parse_args()
    if asked.link and _LINKED not in os.environ:
        _over_a_link(asked.link)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        learned = Learned(read_host(), asked.learned or Path(folder))
        done = recorded(facts("cpu")) if asked.missing else set()
        for name in (one for one in asked.names or names if one not in done):
            found.append(measured(name, asked.budget, asked.limit, learned))
            print(json.dumps(asdict(found[-1])), flush=True)
            if asked.record:
                keep(found[-1], facts("cpu"))
                record(PAGE, "tuning", table(kept()))


if __name__ == "__main__":
    main()
