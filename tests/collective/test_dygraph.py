"""Layers of dygraph that processes train together."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.collective.jobs import as_trainers
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
