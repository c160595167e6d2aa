"""Losses of rivals that compute the same agree, and those of others are seen to differ."""

from __future__ import annotations

import math

import pytest

from benchmarks.suite import page
from benchmarks.suite.results import difference, merged, moved
from benchmarks.suite.workloads import WORKLOADS
from tests.benchmarks.kept import result


def test_differing_losses_are_found() -> None:
    assert difference([2.0, 1.1], [2.0, 1.0]) == pytest.approx(0.1)
    assert moved([2.0, 1.5]) == 0.25
    good, bad = result(2.0, 1.00001), result(2.0, 1.1)
    assert page.agrees(good, "mlp", "eager")
    assert not page.agrees(bad, "mlp", "eager")
    assert "OVER" in page.loss_lines({"mlp": bad})[0]
    assert page.ratio_cell(bad, "mlp", "eager").startswith("2.00 (2.00–2.00), other losses")
    assert math.isnan(difference([2.0, math.nan, 1.0], [2.0, 1.0, 1.0]))
    assert not page.agrees(result(2.0, math.nan), "mlp", "eager")


@pytest.mark.parametrize("garbage", [3.0, 1e30, math.nan, math.inf])
def test_a_peer_that_computes_garbage_widens_no_bound(garbage: float) -> None:
    rounding, broken = result(2.0, 1.02), result(2.0, garbage)
    for found in (rounding, broken):
        found["peers"]["compile"] = found["peers"].pop("eager")
    plain = result(2.0, 1.01)["peers"]["eager"]
    apart = merged(rounding, {"title": "MLP"}, {"eager": plain}, {})
    assert page.allowed(apart, "mlp", "eager") == pytest.approx(0.02, rel=0.02)
    assert page.agrees(apart, "mlp", "eager") and not page.agrees(apart, "mlp", "compile")
    apart = merged(broken, {"title": "MLP"}, {"eager": plain}, {})
    assert page.allowed(apart, "mlp", "eager") == WORKLOADS["mlp"].tolerance
    assert not page.agrees(apart, "mlp", "eager") and not page.agrees(apart, "mlp", "compile")
