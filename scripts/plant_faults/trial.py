"""One planted fault: does the judge find it?"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from refluid.verify.conditioning import Repetitions, RunResults
from refluid.verify.judge import STRICT, Fetch, judge, spread_of
from refluid.verify.metrics import digest, digest_error, relative_error
from refluid.verify.recordings import Recording
from refluid.verify.replay import MismatchError, compare, repeating, run
from scripts.plant_faults.kinds import KINDS

# So many places are tried until one alters something.
TRIES = 30


@dataclass(frozen=True)
class Planted:
    """found: whether the model fails with it. altered: the most it changes any recorded result by
    that it changes beyond bound and rounding."""

    model: str
    kind: str
    what: str
    found: bool
    altered: float
    reason: str


def beginning(recording: Recording) -> Recording:
    """The recording up to the first step after which its variables are known."""
    first = min(recording.digests)
    digests = {first: recording.digests[first]}
    return replace(recording, steps=recording.steps[: first + 1], digests=digests)


def plant(recording: Recording, base: RunResults, kind: str, seed: int) -> Planted | None:
    """Plants a fault of that kind at random; None where there is nowhere to.

    A fault counts if it alters some result by more than refluid's results usually are off, and by
    more than rounding alone moves that result in Fluid: others can't be told from a right program.

    base: results of `beginning(recording)` without it.
    """
    recorded = compare(beginning(recording), base)
    limits = {
        one.key: max(STRICT * one.bound, spread_of(one, recording.spreads)) for one in recorded
    }
    for attempt in range(TRIES):
        name = f"{recording.name} {kind} {seed} {attempt}"
        draw = Random(zlib.crc32(name.encode()))
        programs = {tag: program.clone() for tag, program in recording.programs.items()}
        what = KINDS[kind](draw.choice([programs[tag] for tag in sorted(programs)]), draw)
        if not what:
            if len(programs) > 1:
                continue
            return None
        faulty = replace(recording, programs=programs)
        try:
            short = run(beginning(faulty))
        except Exception:  # such a program is refused: no fault of a computation
            continue
        altered = _altered(short, base, limits)
        if altered:
            found, reason = _found(faulty, short)
            return Planted(recording.name, kind, what, found, altered, reason)
    return None


def _altered(found: RunResults, base: RunResults, limits: Mapping[Fetch, float]) -> float:
    """The most that any result is altered by beyond its limit; 0 if none is."""
    most = 0.0
    for number, (one, other) in enumerate(zip(found, base, strict=True)):
        for label, value in one.items():
            limit = limits.get((number, label))
            a, b = value.array, other[label].array
            if limit is None or not b.size:
                continue
            if a.shape != b.shape:
                return float("inf")
            fetch = label.startswith("fetch ")
            error = relative_error(a, b) if fetch else digest_error(digest(a), digest(b), b.size)
            most = max(most, error if error > limit else 0.0)
    return most


def _found(faulty: Recording, short: RunResults) -> tuple[bool, str]:
    """Judges the first steps, and where these pass all of them."""
    for part, results in ((beginning(faulty), short), (faulty, None)):
        try:
            deviations = compare(part, results or run(part))
        except MismatchError as mismatch:
            return True, str(mismatch)
        verdict = judge(deviations, part.spreads, Repetitions(part, repeating()))
        if not verdict.passed:
            return True, verdict.reason
    return False, verdict.reason


def table(planted: Mapping[tuple[str, str], Planted | None]) -> str:
    """Markdown: found or missed, by model and kind."""
    models = sorted({model for model, _ in planted})
    lines = ["| model | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 1) + "|"]
    marks = {None: "–", True: "found", False: "**missed**"}
    for model in models:
        cells = []
        for kind in KINDS:
            one = planted.get((model, kind))
            cells.append(marks[None if one is None else one.found])
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    totals = []
    for kind in KINDS:
        known = [one for (_, other), one in planted.items() if other == kind and one is not None]
        totals.append(f"{sum(one.found for one in known)} of {len(known)}")
    lines.append("| **all** | " + " | ".join(totals) + " |")
    return "\n".join(lines)
