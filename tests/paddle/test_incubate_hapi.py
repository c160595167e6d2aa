"""`paddle.incubate.hapi` of Fluid 1.8."""

from __future__ import annotations

import random

import numpy as np
import pytest

import refluid.paddle as paddle
from refluid.paddle.incubate import hapi

IMAGE = np.random.RandomState(0).randint(0, 256, (6, 5, 3)).astype("uint8")


@pytest.mark.parametrize("name", hapi.vision.__all__)
def test_a_transform_is_that_of_paddle_2(name: str) -> None:
    given = (0.4, 0.3, 0.2, 0.1) if name == "ColorJitter" else (0.4,)
    random.seed(3)
    found = getattr(hapi.vision, name)(*given)(IMAGE)
    random.seed(3)
    wanted = getattr(paddle.vision.transforms, name)(*given)(IMAGE)
    assert found.tolist() == wanted.tolist()
    assert np.abs(found.astype(int) - IMAGE).max() > 0
    assert hapi.vision.transforms.transforms.ColorJitter is hapi.vision.ColorJitter


def test_batches_of_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    shares = []
    for rank in range(2):
        monkeypatch.setenv("PADDLE_TRAINER_ID", str(rank))
        sampler = hapi.distributed.DistributedBatchSampler(list(range(10)), 2, shuffle=True)
        sampler.set_epoch(1)
        batches = list(sampler)
        assert len(sampler) == len(batches) == 3
        shares.append([one for batch in batches for one in batch])
    assert sorted(shares[0] + shares[1]) == list(range(10))
