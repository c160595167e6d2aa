"""An infinite gradient of one worker is known to all: none updates, and all lower the scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collective import infinities
from tests.collective.jobs import as_trainers


@pytest.mark.slow
def test_all_know_of_an_infinity(tmp_path: Path) -> None:
    first, second = as_trainers(2, infinities.planted, folder=tmp_path)
    assert isinstance(first, dict), first
    for name, (scales, finite) in first.items():
        assert second[name][0] == scales, name
        assert all(finite), name
        assert not second[name][1][infinities.WHEN - 1]
        assert second[name][1].count(False) == 1, name
        # Merged gradients are looked at when they are used.
        assert scales[0] == 1024.0 and scales[-1] == 512.0, (name, scales)
