"""LoDs that follow from several others."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch

from refluid.core.offsets import Offsets
from refluid.ops.lod_rules import joined


@pytest.mark.parametrize("seed", range(20))
def test_joined_sequences_are_those_of_all_one_after_the_other(seed: int) -> None:
    draw = np.random.default_rng(seed)
    levels = int(draw.integers(1, 4))
    lengths = [
        [draw.integers(0, 5, draw.integers(0, 6)).tolist() for _ in range(levels)]
        for _ in range(draw.integers(1, 6))
    ]
    found = joined([tuple(map(Offsets.of_lengths, one)) for one in lengths], torch.empty(0))
    wanted = [list(chain.from_iterable(one[level] for one in lengths)) for level in range(levels)]
    assert found == tuple(map(Offsets.of_lengths, wanted))
    assert [level.lengths for level in found] == wanted
