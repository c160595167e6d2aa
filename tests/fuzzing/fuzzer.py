"""Runs random programs one after the other, and tells of those that differ."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from tests.fuzzing.programs import Spec, build, draw_spec
from tests.fuzzing.running import initial
from tests.fuzzing.ways import Comparison, comparisons, found_by

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Finding:
    """A program whose results differ: in which comparison, and what."""

    spec: Spec
    comparison: Comparison
    differences: list[str]

    @property
    def text(self) -> str:
        """What a person needs to see it again."""
        built = build(self.spec)
        sizes = [f"{step.sizes} {step.kind}" for step in self.spec.steps]
        return "\n".join(
            [
                f"seed {self.spec.seed} ({self.spec.kind.name}), {self.comparison.way.name}:",
                *(f"    {one}" for one in self.differences[:5]),
                f"  layers {built.used}, loss {built.loss}, fetches {built.fetches}",
                f"  steps {sizes}",
                f"  again: python -m tests.fuzzing --seed {self.spec.seed} --programs 1"
                + " --compiled" * self.comparison.way.at_once,
            ]
        )


@dataclass
class Tally:
    """What was run."""

    programs: int = 0
    steps: int = 0
    refused: int = 0
    layers: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


def judged(spec: Spec, tally: Tally | None = None, *, compiled: bool = False) -> Iterator[Finding]:
    """Runs one program in all its ways, or compiled."""
    built = build(spec)
    chosen = list(comparisons(spec, built, compiled=compiled))
    start = initial(built)
    for comparison, different in found_by(spec, built, start, chosen):
        yield Finding(spec, comparison, different)
    if tally is not None:
        tally.programs += 1
        tally.steps += len(spec.steps)
        tally.layers.update(built.used)
        tally.skipped.update(built.skipped)
        tally.ways.update(
            one.way.name.split()[-1 if "copies" in one.way.name else 0] for one in chosen
        )


def fuzz(
    seeds: Iterator[int],
    *,
    seconds: float = float("inf"),
    only: str = "",
    compiled: bool = False,
    tell: Tell = print,
    starting: Tell = lambda text: None,
) -> Tally:
    """Runs the programs of these seeds until the time is over; tells findings as they come."""
    tally, end = Tally(), time.monotonic() + seconds
    for seed in seeds:
        if time.monotonic() >= end:
            break
        starting(str(seed))
        for finding in judged(draw_spec(seed, only), tally, compiled=compiled):
            tally.findings.append(finding)
            tell(finding.text)
    return tally


def shrunk(finding: Finding, patience: int = 60) -> Finding:
    """The same difference by fewer steps and layers, as far as so many tries get."""
    tries = 0
    again = True
    while again and tries < patience:
        again = False
        for smaller in _smaller(finding.spec):
            tries += 1
            if tries > patience:
                break
            way = finding.comparison.way
            found = judged(smaller, compiled=way.at_once)
            same = [one for one in found if one.comparison.way.name == way.name]
            if same:
                finding, again = same[0], True
                break
    return finding


def _smaller(spec: Spec) -> Iterator[Spec]:
    used = {*build(spec).used}
    kept = tuple(one for one in spec.layers if one[0] in used)
    if len(kept) < len(spec.layers):
        yield replace(spec, layers=kept)
    for half in (len(spec.steps) // 2, 1):
        for start in range(0, len(spec.steps), max(half, 1)):
            fewer = spec.steps[:start] + spec.steps[start + half :]
            if fewer and half:
                yield replace(spec, steps=fewer)
    for place in range(len(kept)):
        yield replace(spec, layers=kept[:place] + kept[place + 1 :])
