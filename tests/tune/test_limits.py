"""Searches keep to the memory and the time that they are given."""

from __future__ import annotations

import numpy as np
import pytest

from refluid.engine.choices import NONE
from tests.tune.benches import Machine, kept, proposal, search


@pytest.mark.parametrize("seed", range(5))
def test_what_holds_less_memory_is_kept_where_there_is_too_little(seed: int) -> None:
    factors, peaks = {"parts": 1.5, "fast": 0.8, "large": 0.7}, {"parts": 40, "large": 190}
    machine = Machine(factors, peaks=peaks, usual_peak=100, seed=seed)
    found = search(machine, limit=60)
    list(found.run(NONE, [proposal(name) for name in factors]))
    assert kept(found) == {"parts", "fast"}
    assert found.tried[0].why == "holds less memory" and "limit" in found.tried[2].why
    proof = found.proven()
    assert kept(found) == {"parts", "fast"} and proof is not None
    assert proof.spares_memory(60) and not proof.is_faster
    enough = search(Machine(factors, peaks=peaks, usual_peak=100, seed=seed), limit=200)
    list(enough.run(NONE, [proposal(name) for name in factors]))
    assert kept(enough) == {"fast", "large"}


@pytest.mark.parametrize("seed", range(20))
def test_a_search_and_its_proof_keep_to_their_time(seed: int) -> None:
    """Whatever a step takes, and however much longer trials take than their rows say."""
    random = np.random.RandomState(seed)
    names = [f"knob{number}" for number in range(30)]
    machine = Machine({name: random.uniform(0.8, 1.1) for name in names}, seed=seed)
    machine.step, machine.starts = random.choice([0.001, 0.01, 0.3]), random.uniform(0, 6)
    found = search(machine, seconds=60, reserve=9)
    list(found.run(NONE, [proposal(name, seconds=random.uniform(0, 3)) for name in names]))
    assert found.tried and machine.now < 60
    assert found.proven() is not None or not found.best
    assert machine.now < 1.1 * 60
