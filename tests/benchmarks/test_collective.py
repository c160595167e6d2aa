"""Training over emulated hosts: exact bytes, and a model that finds what it was made of."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from benchmarks.collective import EACH, QUICK, expected, judged
from benchmarks.hosts import allowed
from benchmarks.scaling import KINDS, MEGA, RANKS, Fit, checked, fitted, leaving, page, step

FIT = Fit({"direct": 2e-4, "by host": 3e-4}, {"direct": 8e-9, "by host": 9e-9})


def test_bytes_of_two_hosts() -> None:
    assert expected("direct", 1, 16) == 2 * MEGA + 4 * 32
    assert expected("direct", 32, 16) == 64 * MEGA + 2 * 4 * 32
    assert expected("by host", 1, 16) == MEGA + 2 * 32
    assert expected("by host", 18, 16) == 18 * MEGA + 2 * 2 * 32
    assert leaving("direct", 100.0, 2, 2) == 200.0 and leaving("by host", 100.0, 2, 2) == 100.0


def test_the_model_finds_what_it_was_made_of() -> None:
    found = {
        f"{kind} {size}": {"seconds": FIT.exchange(kind, size, 2, 2, 16)}
        for kind in KINDS
        for size in (1, 16, 102)
    }
    fit = fitted(found, 16)
    for kind in KINDS:
        assert fit.latency[kind] == pytest.approx(FIT.latency[kind])
        assert fit.pace[kind] == pytest.approx(FIT.pace[kind])
    known = checked(fit, found, 16)
    assert sorted(known) == ["by host 16", "direct 16"]
    for predicted, seconds in known.values():
        assert predicted == pytest.approx(seconds)


def test_predictions_are_as_they_must_be() -> None:
    for network in ("ResNet-50", "BERT base"):
        alone = step(FIT, network, "direct", 8)
        for kind in KINDS:
            times = [step(FIT, network, kind, ranks) for ranks in RANKS]
            assert times[0] == alone and times == sorted(times)
        assert step(FIT, network, "by host", 1024, 4) < step(FIT, network, "by host", 1024)
    table = page(FIT).splitlines()
    assert len(table) == 2 + 2 + 8 and all(one.count("|") == len(RANKS) + 2 for one in table[2:])


def test_what_misses_is_told() -> None:
    found: dict[str, Any] = {
        "exchanges": {
            f"{kind} {size}": {"seconds": 1e-9, "bytes": expected(kind, size, 2) // EACH}
            for kind in KINDS
            for size in QUICK["sizes"]
        },
        "refluid": 0.9,
        "ddp": {"1": 1.0, "4": 1.2},
        "alone": 1.0,
        "overlapped": 1.3,
        "one after the other": 2.0,
    }
    assert all(well for _, _, well in judged(found, QUICK))
    found["exchanges"]["direct 1"]["bytes"] += 1
    found["overlapped"], found["ddp"]["4"] = 1.5, 0.8
    missed = [name for name, _, well in judged(found, QUICK) if not well]
    assert missed == ["direct 1 MB: bytes", "a step of the MLP", "exchanges beside a sleep"]


@pytest.mark.slow
@pytest.mark.skipif(not allowed(), reason="network namespaces aren't allowed here")
def test_it_runs_on_emulated_hosts() -> None:
    path = os.pathsep.join(one for one in sys.path if one)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.collective", "--quick"],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "direct 4 MB: bytes           4,194,432 of 4,194,432" in done.stdout
