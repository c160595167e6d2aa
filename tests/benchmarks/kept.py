"""Kept results of the suite, as if something had been measured."""

from __future__ import annotations

from typing import Any

from benchmarks.suite.results import Measured, merged, pair


def measured(step: float, losses: list[float]) -> Measured:
    return Measured({"torch": "1"}, 0.1, 0.2, losses, [[step, step], [2 * step, 2 * step]], 2**20)


def result(theirs: float, loss: float = 1.0) -> dict[str, Any]:
    facts = {"machine": "one", "time": "1"}
    peer = measured(theirs, [2.0, loss])
    peer.peak *= 2
    entry = pair(measured(1.0, [2.0, 1.0]), peer, facts, "auto")
    head = {"title": "MLP", "batch": 64, "flops": 60, "ceiling": 100.0}
    return merged({}, head, {"eager": entry}, {"jax": "no room"})
