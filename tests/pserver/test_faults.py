"""What fails on emulated hosts loses and doubles nothing, and nobody waits for ever."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.counted_faults import FAULTS
from benchmarks.counted_jobs import HOSTS, complaint, pause
from benchmarks.hosts import Hosts, allowed
from benchmarks.pserver_faults import case

CASES = [
    ("sync", "kill-server", 30.0),
    ("async", "cut-server", 40.0),
    ("sync", "stop-trainer", 15.0),
    ("geo", "failing-calls", 15.0),
    ("half-async", "full-disk", 15.0),
    ("async", "comes-without-server", 40.0),
    ("sync", "first-goes", 15.0),
]


@pytest.mark.slow
@pytest.mark.skipif(not allowed(), reason="network namespaces aren't allowed here")
@pytest.mark.parametrize("mode, fault, most", CASES, ids=[one[1] for one in CASES])
def test_every_update_is_there_once(mode: str, fault: str, most: float) -> None:
    with Hosts(HOSTS) as hosts:
        wrong, seconds = case(hosts, mode, FAULTS[fault])
    assert not wrong
    assert seconds < most


def told(own: float, total: float) -> dict[str, Any]:
    return {
        "steps": 10, "ended": True, "moment": 1.0,
        "own": [own], "shared": [total], "dense": [total],
    }  # fmt: skip


def test_what_is_lost_or_doubled_is_found() -> None:
    def said(mode: str, *found: dict[str, Any], alone: bool = False) -> str:
        return complaint(mode, 10, dict(enumerate(found)), alone=alone)

    assert not said("async", told(-10, -20), told(-10, -20))
    assert not said("geo", told(-5, -10), told(-5, -10))
    assert not said("sync", told(-5, -10), told(-5, -10))
    assert not said("sync", told(-4, -13), told(-9, -13), alone=True)
    dead = {"steps": 4, "moment": 0.5}
    assert not said("async", told(-10, -13), dead, alone=True)
    assert "own updates" in said("async", told(-11, -21), told(-10, -21))
    assert "all updates are" in said("async", told(-10, -19), told(-10, -19))
    assert "all updates are" in said("sync", told(-5, -11), told(-6, -11))
    assert "aren't the sum" in said("sync", told(-4, -13), told(-10, -13), alone=True)
    assert "all updates are" in said("async", told(-10, -16), dead, alone=True)
    assert "differ within" in said("async", {**told(-10, -20), "own": [-10, -9]}, told(-10, -20))
    assert said("async", dead, dead) == "no trainer came to its end"


def test_a_pause_is_between_two_steps() -> None:
    assert pause(2.5, [1.0, 2.0, 7.0, 7.5]) == 5.0 and pause(8.0, [1.0, 2.0]) == 0.0
