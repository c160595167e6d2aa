"""Where repeatable numbers are asked for, nothing that is timed decides what is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid.core import flags
from refluid.kernels import processor, products
from refluid.kernels.panels import choice
from tests.kernels.panels import always_by_panels
from tests.runtime.test_paneling import NETWORKS, trained

TIERS = ("interpreted", "recorded")


def _trained(
    name: str, tier: str, speed: float, monkeypatch: pytest.MonkeyPatch, seed: int = 5
) -> list[Any]:
    """On a machine where other products than MKL's are so many times as fast."""
    with monkeypatch.context() as machine:
        always_by_panels(machine)
        for one in (choice.of_one, choice.of_repeated):
            machine.setattr(one, "told", speed)
        machine.setattr(products, "_LARGE", 1)
        machine.setattr(processor, "_speeds", {False: speed, True: speed})
        return trained(name, seed, by_panels=True, tier=tier)


def _equal(one: list[Any], other: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("flag", ["cpu_deterministic", "cudnn_deterministic"])
def test_numbers_are_those_of_a_machine_with_other_speeds(
    flag: str, name: str, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with flags.override({f"FLAGS_{flag}": True}):
        runs = [_trained(name, tier, speed, monkeypatch) for speed in (9.0, 0.5)]
    assert _equal(*runs)


@pytest.mark.parametrize("tier", TIERS)
def test_else_they_may_be_others(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above would say nothing; small sums may be equal all the same."""
    pairs = [
        [_trained(name, tier, speed, monkeypatch, seed) for speed in (9.0, 0.5)]
        for name in NETWORKS
        for seed in range(5, 9)
    ]
    assert not all(_equal(*pair) for pair in pairs)


def test_what_is_not_timed_follows_from_the_width_of_registers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processor, "_speeds", {False: 9.0, True: 9.0})
    monkeypatch.setattr(products.limits, "repeatable", True)
    for bits, speed in ((512, 2.0), (256, 1.0), (0, 1.0)):
        monkeypatch.setattr(products, "vector_bits", lambda bits=bits: bits)
        assert products._speed(20) == products._speed() == speed
        assert (products.torch_derives() < float("inf")) is (bits == 512)
    monkeypatch.setattr(products, "both_are_there", lambda: False)
    assert products._speed() == 0.0
    monkeypatch.setattr(products.limits, "repeatable", False)
    assert products._speed(20) == products._speed() == 9.0
