"""What was measured, as numbers that are kept: one JSON file per device and workload.

A run replaces only the peers that it measured. Each peer's entry has refluid's times from the same
run, so ratios never mix runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.suite.rivals import EAGER
from refluid.measure.ceilings import Ceilings
from refluid.measure.timing import Ratio, Times, ratio

# Of a step, as `Needs` has them, and the rate of copies: kept where a run doesn't count them anew.
NEEDS = ("flops", "moved", "held", "alone", "copied")


@dataclass
class Measured:
    """One rival: seconds of each step by block, of its construction and of its first step.

    shares: of a step's time, by operator; empty where that isn't known.
    """

    versions: dict[str, str]
    build: float
    first_step: float
    losses: list[float]
    blocks: list[list[float]] = field(default_factory=list)
    peak: int = 0
    shares: dict[str, float] = field(default_factory=dict)

    @property
    def times(self) -> Times:
        return Times(tuple(tuple(block) for block in self.blocks))

    @property
    def median(self) -> float:
        return self.times.median

    def kept(self) -> dict[str, Any]:
        """As JSON; of the steps, each block's median."""
        medians = [float(f"{median:.4g}") for median in self.times.block_medians]
        return asdict(self) | {"blocks": medians, "median": self.median}


def difference(losses: Sequence[float], others: Sequence[float]) -> float:
    """The largest relative difference; NaN where a loss of either is NaN."""
    pairs = zip(losses, others, strict=True)
    found = [abs(one - other) / max(abs(other), 1e-12) for one, other in pairs]
    return math.nan if any(math.isnan(one) for one in found) else max(found)


def moved(losses: Sequence[float]) -> float:
    """How much training changed the loss, relatively: what a comparison of losses can show."""
    return max(abs(loss - losses[0]) for loss in losses) / max(abs(losses[0]), 1e-12)


def pair(ours: Measured, theirs: Measured, facts: Mapping[str, str], tier: str) -> dict[str, Any]:
    """One peer's entry."""
    found: Ratio = ratio(ours.times, theirs.times)
    return {
        "ratio": {name: float(f"{value:.4g}") for name, value in vars(found).items()},
        "difference": float(f"{difference(ours.losses, theirs.losses):.2g}"),
        "moved": float(f"{moved(ours.losses):.2g}"),
        "ours": ours.kept(),
        "theirs": theirs.kept(),
        "tier": tier,
        "facts": dict(facts),
    }


def best(result: Mapping[str, Any], peer: str) -> Mapping[str, Any] | None:
    """A peer's entry; of PyTorch eager the faster memory layout's. None if there is none."""
    names = (EAGER, "channels_last") if peer == EAGER else (peer,)
    entries = [result["peers"][name] for name in names if name in result["peers"]]
    return min(entries, key=lambda entry: entry["ratio"]["value"], default=None)


def newest(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry of a peer in the newest run."""
    found: Mapping[str, Any]
    found = max(result["peers"].values(), key=lambda entry: entry["facts"]["time"])
    return found


def ours(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """refluid's numbers in the newest run."""
    found: Mapping[str, Any] = newest(result)["ours"]
    return found


def ceiling_share(result: Mapping[str, Any]) -> float:
    """The share of the machine's matrix rate that the arithmetic of a step reaches."""
    ceiling: float = result["ceiling"]
    return result["flops"] / ours(result)["median"] / ceiling if ceiling else 0.0


def floor(result: Mapping[str, Any]) -> tuple[float, str]:
    """Seconds below which no step can be, and what limits it: its arithmetic at the matrix rate or
    its traffic at the copy rate, where that was measured. 0 where the arithmetic wasn't counted."""
    if not result["ceiling"]:
        return 0.0, ""
    needs = result["flops"], result.get("moved", 0)
    ceilings = Ceilings(result["ceiling"], result.get("copied") or math.inf)
    return ceilings.least_seconds(*needs), ceilings.bound(*needs)


def merged(
    old: Mapping[str, Any],
    entry: Mapping[str, Any],
    peers: Mapping[str, Mapping[str, Any]],
    failed: Mapping[str, str],
) -> dict[str, Any]:
    """The kept result with new entries of the peers measured now."""
    kept_peers = {k: v for k, v in old.get("peers", {}).items() if k not in failed}
    kept_failed = {k: v for k, v in old.get("failed", {}).items() if k not in peers}
    needs = {name: entry.get(name) or old.get(name, 0) for name in NEEDS}
    return {
        **entry,
        **needs,
        "peers": {**kept_peers, **peers},
        "failed": {**kept_failed, **failed},
    }


def load(folder: Path, name: str) -> dict[str, Any]:
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def save(folder: Path, name: str, result: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1, sort_keys=False)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
