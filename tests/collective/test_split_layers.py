"""Layers that are split among workers train as whole ones in one process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.collective import split_layers
from tests.collective.combining import reducing
from tests.collective.jobs import as_trainers
from tests.collective.split_layers import OPTIMIZERS, refuse, train, train_all

AXES = {"table": 0, "in.w": 1, "in.b": 0, "out.w": 0, "wide.w": 1, "wide.b": 0, "back.w": 0}


def compare(
    found: list[Any],
    cases: list[tuple[Any, ...]],
    alone: Sequence[tuple[dict[str, Any], float]] = (),
) -> None:
    """Each worker's losses and parts beside those of one process.

    alone: of each case the strategy's fields there, and how near its numbers are.
    """
    for own in found:
        assert isinstance(own, list), own
    for number, (seed, optimizer, parts, *_) in enumerate(cases):
        split_layers.fleet.init(is_collective=True)
        fields, near = alone[number] if alone else ({}, 1e-5)
        losses, learned = train(seed, optimizer, 1, fields)
        here = [own[number] for own in found]
        known = [one[0] for one in here if one[0]]
        np.testing.assert_allclose(np.mean(known, 0), losses, rtol=near)
        assert abs(losses[-1] - losses[0]) > 1e-3, "it has learned something"
        for rank, (_, params) in enumerate(here):
            assert params.keys() == learned.keys()
            for name, value in learned.items():
                if name in AXES:
                    value = np.split(value, parts, AXES[name])[rank % parts]
                np.testing.assert_allclose(params[name], value, rtol=near, atol=near, err_msg=name)


def test_two_workers_have_a_half_each(tmp_path: Path) -> None:
    cases = [(1, "adam, clipped", 2), (2, "momentum, each clipped", 2)]
    compare(as_trainers(2, train_all, cases, folder=tmp_path), cases)
    found = as_trainers(2, refuse, str(tmp_path), folder=tmp_path)
    for own in found:
        assert isinstance(own, list), own
        columns, rows, workers, kind, lamb, _, model, other, folder = own
        assert "columns of a linear layer's weight is 7, which 2 workers can't share" in columns
        assert "last dimension of 8, or a part of it, 4; it is 6" in rows
        assert "can't be split in 3 parts: there are 2 workers" in workers
        assert "ValueError: operation is one of linear, embedding" in kind
        assert "Lamb needs all of split_" in lamb
        assert "is split among 2 workers" in model and "save_persistables" in model
        for text in (other, folder):
            assert "of 2" in text and "each worker needs a folder of its own" in text
    assert found[0][5] != found[1][5], "each draws its own part"


@pytest.mark.slow
@pytest.mark.parametrize("parts", [2, 4])
def test_four_workers(parts: int, tmp_path: Path) -> None:
    """Two data groups of two parts, or four parts, by every optimizer."""
    cases = [(10 * parts + at, one, parts) for at, one in enumerate(OPTIMIZERS)]
    compare(as_trainers(4, train_all, cases, folder=tmp_path), cases)


_CHECKED = {"recompute": True, "recompute_configs": {"checkpoints": ["tanh_0.tmp_0"]}}
_MERGED = {"gradient_merge": True, "gradient_merge_configs": {"k_steps": 2}}
_HALF = {"amp": True, "amp_configs": {"init_loss_scaling": 8.0}}
_SHARES = [
    {"sharding": True, "sharding_configs": {"stage": one, "segment_broadcast_MB": 0.0001}}
    for one in (1, 2, 3)
]
_NORM = {"sync_batch_norm": True}
# Optimizers, fields of the strategy, those of one process, how near numbers must be. (Adam makes
# something of gradients that are only what rounding left.)
Case = tuple[str, dict[str, Any], dict[str, Any], float]
_ADAM = "adam, clipped"
BESIDE: list[Case] = [
    *((_ADAM, one, {}, 1e-5) for one in _SHARES),
    (_ADAM, _CHECKED, {}, 1e-5),
    (_ADAM, _MERGED, _MERGED, 1e-5),
    (_ADAM, {**_MERGED, **_SHARES[1], **_CHECKED}, _MERGED, 1e-5),
    (_ADAM, {"use_hierarchical_allreduce": True, "nccl_comm_num": 2}, {}, 1e-5),
    (_ADAM, {"fp16_allreduce": True}, {}, 1e-2),
    (_ADAM, _HALF, _HALF, 2e-2),
    ("momentum", _NORM, _NORM, 1e-5),
    ("momentum", {"build_strategy": reducing}, {}, 1e-5),
]
_STAGES = {"pipeline": True, "pipeline_configs": {"accumulate_steps": 2}}
# Two stages of two parts each: fields besides, those of one process, and how near.
STAGES: list[Case] = [
    *((one, {}, {}, 1e-5) for one in OPTIMIZERS),
    ("sgd, clipped", _CHECKED, {}, 1e-5),
    ("adam, clipped", {"pipeline_configs": {"schedule_mode": "F-then-B"}}, {}, 1e-5),
    ("momentum", {"hybrid_configs": {"pp_degree": 2, "mp_degree": 2}}, {}, 1e-5),
    ("sgd, clipped", _HALF, _HALF, 2e-2),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cases", "common", "first"), [(BESIDE, {}, 50), (STAGES, _STAGES, 70)], ids=["data", "stages"]
)
def test_beside_other_options(
    cases: list[Case], common: dict[str, Any], first: int, tmp_path: Path
) -> None:
    """Two data groups, or two stages, of two parts, by each option that goes with it."""
    given = [
        (first + at, how, 2, {**common, **fields}) for at, (how, fields, _, _) in enumerate(cases)
    ]
    alone = [(fields, near) for _, _, fields, near in cases]
    compare(as_trainers(4, train_all, given, folder=tmp_path), given, alone)
