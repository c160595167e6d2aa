"""LoDs that follow from several others, and regions dealt to levels, against plain ways."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch

from refluid.core.offsets import Offsets
from refluid.ops.detection.pyramid import by_level
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


@pytest.mark.parametrize("images", [1, 3, 90, 9000])  # of the last the keys pass 16 bits
def test_regions_by_level_keep_their_images_and_order(images: int) -> None:
    draw = np.random.default_rng(images)
    owner = np.sort(draw.integers(0, images, 3000))
    sizes = np.exp2(draw.uniform(3, 10, 3000)).astype("float32")[:, None]
    rois = torch.from_numpy(np.concatenate([np.zeros_like(sizes).repeat(2, 1), sizes, sizes], 1))
    parts, place, bounds = by_level(
        rois, torch.from_numpy(owner), images, (2, 5, 4, 224), normalized=True
    )
    level = np.clip(np.floor(4 + np.log2(sizes[:, 0] / 224 + 1e-6)), 2, 5)
    for number, part in enumerate(parts):
        mine = np.flatnonzero(level == 2 + number)
        assert torch.equal(part, rois[mine])
        lengths = np.bincount(owner[mine], minlength=images)
        assert bounds[number].diff().tolist() == lengths.tolist()
    assert torch.equal(torch.cat(parts)[place[:, 0].long()], rois)
