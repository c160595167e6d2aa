"""Shortcuts of operators on sequences give what the plain way does, for sizes at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refluid.core.offsets import Offsets
from refluid.ops import lod_rules
from refluid.ops.detection.pyramid import distribute_fpn_proposals
from refluid.ops.nn.channels import maxout, maxout_grad
from refluid.ops.sequence import ids, padded

RANDOM = np.random.default_rng(11)


def _lengths(low: int = 0) -> list[int]:
    return [int(one) for one in RANDOM.integers(low, 9, RANDOM.integers(1, 7))]


@pytest.mark.parametrize("fill", [0.0, 2.5, torch.tensor(-1.0), torch.arange(3.0)])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int64])
def test_long_sequences_are_padded_one_by_one(
    fill: Any, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(30):
        lengths = _lengths()
        rows = torch.from_numpy(RANDOM.integers(0, 9, (sum(lengths), 3))).to(kind)
        sequences = Offsets.of_lengths(lengths)
        length = sequences.longest + int(RANDOM.integers(0, 2))
        found = []
        for long in (0, 10**9):
            monkeypatch.setattr(padded, "_LONG", long)
            found.append(padded.pad_rows(rows, sequences, length, fill))
        assert torch.equal(*found) and found[0].dtype is kind
        assert torch.equal(padded.unpad_rows(found[0], sequences), rows)


def test_some_numbers_are_erased() -> None:
    for _ in range(60):
        lengths = _lengths()
        numbers = RANDOM.integers(0, 12, sum(lengths))
        tokens = [int(one) for one in RANDOM.integers(0, 12, RANDOM.integers(0, 12))]
        sequences = Offsets.of_lengths(lengths)
        out, lod = ids.sequence_erase(
            torch.from_numpy(numbers)[:, None], lod_X=(sequences,), tokens=tokens
        )
        parts = np.split(numbers, np.cumsum(lengths)[:-1])
        kept = [[one for one in part if one not in tokens] for part in parts]
        assert out[:, 0].tolist() == [one for part in kept for one in part]
        assert lod[0].lengths == [len(one) for one in kept]


def test_sequences_are_joined() -> None:
    for _ in range(40):
        several = [(Offsets.of_lengths(_lengths()),) for _ in range(RANDOM.integers(1, 5))]
        wanted = [length for (one,) in several for length in one.lengths]
        assert lod_rules.joined(several, torch.empty(0))[0].lengths == wanted


def test_of_equal_channels_the_first_has_the_gradient() -> None:
    for groups in (2, 3, 5):
        x = torch.from_numpy(RANDOM.integers(0, 3, (2, 2 * groups, 4, 3))).float()
        parts = x.view(2, 2, groups, 4, 3)
        out, d_out = maxout(x, groups=groups), torch.randn(2, 2, 4, 3)
        assert torch.equal(out, parts.max(2).values)
        wanted = torch.zeros_like(parts).scatter_(2, parts.argmax(2, True), d_out[:, :, None])
        assert torch.equal(maxout_grad(x, out, d_out, groups=groups), wanted.view_as(x))


def test_regions_go_to_their_levels() -> None:
    for _ in range(20):
        lengths = _lengths()
        corner = RANDOM.integers(0, 400, (sum(lengths), 2))
        boxes = np.concatenate([corner, corner + RANDOM.integers(0, 900, corner.shape)], 1)
        rois = torch.from_numpy(boxes).float()
        sizes = {"min_level": 2, "max_level": 5, "refer_level": 4, "refer_scale": 224}
        lod = (Offsets.of_lengths(lengths),)
        parts, restore, lods = distribute_fpn_proposals(rois, **sizes, lod_FpnRois=lod)
        assert torch.equal(torch.cat(parts)[restore[:, 0].long()], rois)
        assert [one.shape[0] for one in parts] == [level[0].total for level in lods]
        images = np.repeat(np.arange(len(lengths)), lengths)
        for part, (level,) in zip(parts, lods, strict=True):
            own = [images[int((rois == one).all(1).nonzero()[0])] for one in part]
            if len({tuple(one) for one in boxes.tolist()}) == len(boxes):
                assert own == np.repeat(np.arange(len(lengths)), level.lengths).tolist()
