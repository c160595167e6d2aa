"""What passes are told follows from a strategy, flags, and where replicas are."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from refluid.core import flags
from refluid.engine.setting import Setting, parallel_of
from refluid.engine.strategy import Strategy

_MB = 1 << 20
_SIZE, _COUNT = "FLAGS_fuse_parameter_memory_size", "FLAGS_fuse_parameter_groups_size"


@pytest.mark.parametrize(
    ("given", "near", "far"),
    [
        ({}, (4 * _MB, 0), (25 * _MB, 0)),
        ({_SIZE: 2.0}, (2 * _MB, 0), (2 * _MB, 0)),
        ({_SIZE: 32.0}, (32 * _MB, 0), (32 * _MB, 0)),
        ({_COUNT: 3}, (sys.maxsize, 3), (sys.maxsize, 3)),
        ({_COUNT: -1}, (sys.maxsize, 0), (sys.maxsize, 0)),
    ],
)
def test_what_is_not_sent_waits_for_less(
    given: dict[str, Any], near: tuple[int, int], far: tuple[int, int]
) -> None:
    here, among = Setting(replicas=2), Setting(replicas=2, sends=True)
    on_gpus = Setting(replicas=2, device=torch.device("cuda", 0))
    with flags.override(given):
        for setting, expected in ((here, near), (among, far), (on_gpus, far)):
            found = parallel_of(setting)
            assert (found.bucket_bytes, found.bucket_count) == expected


def test_gradients_are_exchanged_one_by_one_where_that_is_asked_for() -> None:
    for sends in (False, True):
        found = parallel_of(Setting(Strategy(fuse_all_reduce_ops=False), replicas=2, sends=sends))
        assert (found.bucket_bytes, found.bucket_count) == (0, 0)
