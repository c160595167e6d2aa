"""An infinite gradient of one worker is known to all: none updates, and all lower the scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.collective import infinities
from tests.collective.jobs import as_trainers


@pytest.mark.slow
def test_all_know_of_an_infinity(tmp_path: Path) -> None:
    first, second = as_trainers(2, infinities.planted, folder=tmp_path)
    assert isinstance(first, dict), first
    for name, (scales, finite, learned) in first.items():
        other = second[name]
        assert all(finite), name
        assert not other.finite[infinities.WHEN - 1] and other.finite.count(False) == 1, name
        assert learned and all(np.isfinite(value).all() for value in learned.values()), name
        if name in infinities.APART:
            # Only the one whose gradient it was leaves its update out.
            assert scales == [1024.0] * infinities.STEPS, name
            assert other.scales[-1] == 512.0, (name, other.scales)
            if name == "local sgd of 1":  # the last step ended with the mean
                assert all((other.learned[one] == learned[one]).all() for one in learned), name
            continue
        assert other.scales == scales, name
        # Merged gradients are looked at when they are used.
        assert scales[0] == 1024.0 and scales[-1] == 512.0, (name, scales)
