"""Layers of dygraph that processes train together."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.collective.jobs import as_trainers
from tests.collective.own_layers import broadcast_own
from tests.collective.training import train_at_once


def test_layers_in_several_processes_train_as_one(tmp_path: Path) -> None:
    """With dense and sparse gradients; all begin with the parameters of the first."""
    trained = as_trainers(2, train_at_once, [False, True], folder=tmp_path)
    for own in trained:
        assert isinstance(own, list), own
    for number, (losses, learned) in enumerate(train_at_once([False, True])):
        found = [own[number] for own in trained]
        np.testing.assert_allclose(np.mean([one[0] for one in found], 0), losses, rtol=1e-5)
        for _, own in found:
            for name, value in learned.items():
                np.testing.assert_allclose(own[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_layer_of_ones_own_begins_as_the_others(tmp_path: Path) -> None:
    """As layers of 1.6 did that make their parameters at the first call."""
    same = [[1.0] * 4, [1.0] * 2]
    assert broadcast_own() == (False, False, same)
    assert as_trainers(2, broadcast_own, folder=tmp_path) == [(False, True, same)] * 2
