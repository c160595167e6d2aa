"""Goals that a result misses, and the profiles that show why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.suite.goals import (
    CEILING_GOALS,
    FIRST_STEP_GOAL,
    MEMORY_GOALS,
    USUAL_MEMORY_GOAL,
    goals_of,
)
from benchmarks.suite.results import best, ceiling_share, floor, ours
from benchmarks.suite.rivals import DECLARATIVE, DYGRAPH, EAGER, FLOAT32, RIVALS

Result = Mapping[str, Any]
OWN = (DYGRAPH, DECLARATIVE, FLOAT32)  # other ways of refluid's


def missed(result: Result, name: str) -> Iterator[str]:
    """Each missed goal in words."""
    half = result.get("half", "")
    for peer, goal in goals_of(name, half).items():
        entry = best(result, peer)
        if entry is not None and entry["ratio"]["value"] < goal:
            yield f"{entry['ratio']['value']:.2f} of {RIVALS[peer].title} instead of {goal:g}"
    share, goal = ceiling_share(result), CEILING_GOALS.get(name, 0.0)
    if share < goal and not half:
        yield f"{share:.0%} of the ceiling instead of {goal:.0%}"
    eager = result["peers"].get(EAGER)
    if eager is None or half:
        return
    peaks, firsts = [
        [eager[side][what] for side in ("ours", "theirs")] for what in ("peak", "first_step")
    ]
    goal = MEMORY_GOALS.get(name, USUAL_MEMORY_GOAL)
    if peaks[0] > goal * peaks[1]:
        yield f"{peaks[0] / peaks[1]:.2f} of PyTorch eager's memory instead of {goal}"
    if firsts[0] > firsts[1] + FIRST_STEP_GOAL:
        yield f"first step {firsts[0] - firsts[1]:.1f} s after PyTorch eager's"


def missed_lines(results: Mapping[str, Result]) -> list[str]:
    """A line per workload that misses goals: which, and where both sides' time goes."""
    lines = []
    for name, result in results.items():
        if goals := list(missed(result, name)):
            entry = best(result, EAGER)
            sides = {"refluid": ours(result), "PyTorch eager": entry["theirs"] if entry else {}}
            shares = [
                f" {title}, {side['median'] * 1e3:.2f} ms: {_listed(side['shares'])}."
                for title, side in sides.items()
                if side.get("shares")
            ]
            lines.append(
                f"- {result['title']}: {'; '.join(goals)}.{_floor(result)}{''.join(shares)}"
            )
    return lines


def _floor(result: Result) -> str:
    """How far refluid and the fastest peer are from what the machine allows."""
    least, limit = floor(result)
    ratios = {
        name: entry["ratio"]["value"] for name, entry in result["peers"].items() if name not in OWN
    }
    if not (least and ratios):
        return ""
    peer = min(ratios, key=ratios.__getitem__)
    times = ours(result)["median"] / least
    return (
        f" The floor, by {limit}, is {least * 1e3:.3g} ms: refluid takes {times:.1f} times that, "
        f"{RIVALS[peer].title} {ratios[peer] * times:.1f} times.{_alone(result, ratios[peer])}"
    )


def _alone(result: Result, ratio: float) -> str:
    """What the products by themselves leave to be gained of the fastest peer."""
    if not (seconds := result.get("alone")):
        return ""
    reached = ratio * ours(result)["median"] / seconds
    return (
        f" Its products alone, each by the fastest kernel here, take {seconds * 1e3:.3g} ms: "
        f"{reached:.2f} of that peer if nothing else took time."
    )


def _listed(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{kernel} {share:.0%}" for kernel, share in shares.items())
