"""Datasets, metrics and files that scripts of Paddle 2 use beside servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.paddle as paddle
from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.paddle.distributed import fleet
from refluid.paddle.distributed.fleet.dataset import InMemoryDataset, QueueDataset
from tests.fluid.dataset_network import KINDS, TOTAL, Network, write_files


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    programs = fluid.program_guard(fluid.Program(), fluid.Program())
    with programs, fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_trained_once(kind: str, tmp_path: Path) -> None:
    network = Network()
    dataset = getattr(paddle.distributed, kind)()
    dataset.init(
        batch_size=10, thread_num=2, use_var=network.variables, pipe_command="cat", input_type=0
    )
    dataset.set_filelist(write_files(tmp_path))
    if kind == "InMemoryDataset":
        dataset._init_distributed_settings(fleet_send_batch_size=512, fea_eval=False)
        dataset.load_into_memory(is_shuffle=True)
        assert dataset.get_memory_data_size() == TOTAL
        dataset.update_settings(batch_size=7, queue_num=-1)
    network.train(dataset)
    assert sorted(network.seen) == list(range(TOTAL))


def test_settings_that_nobody_knows_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    QueueDataset().init(batch_size=2, queue_num=3, sizes=4)
    assert "QueueDataset has no setting queue_num, sizes" in caplog.text
    InMemoryDataset().update_settings(merge_size=-1, parse_ins_id=False)
    assert "InMemoryDataset" not in caplog.text
    with pytest.raises(NotImplementedError, match="BoxPS"):
        fleet.BoxPSDataset()


class _Twice:
    """`fleet.util` of two workers that have the same."""

    def all_reduce(self, given: Any, mode: str) -> Any:
        return given * 2 if mode == "sum" else given


def test_metrics_are_those_of_all_workers() -> None:
    draws = np.random.RandomState(0)
    positive, negative = draws.randint(0, 9, (2, 1, 5)).astype("float64")
    pairs = [(one, other) for one in range(5) for other in range(5)]
    counts = [positive[0, one] * negative[0, other] for one, other in pairs]
    won = [1.0 if one > other else 0.5 * (one == other) for one, other in pairs]
    metrics, two = fleet.metrics, {"util": _Twice()}
    assert metrics.auc(positive, negative, **two) == pytest.approx(np.average(won, weights=counts))
    assert metrics.sum(positive, **two).shape == (1, 5)
    assert (metrics.sum(positive, **two) == 2 * positive).all()
    assert (metrics.max(positive, **two) == positive).all()
    assert metrics.mae(np.array([3.0]), 4, **two) == 0.75
    assert metrics.mse(np.array(9.0), np.array([4.0]), **two) == 2.25
    assert metrics.rmse(np.array(9.0), np.array([4.0]), **two) == 1.5
    scope = fluid.Scope()
    scope.var("right").get_tensor().set(np.array([3.0], "float32"), fluid.CPUPlace())
    assert metrics.acc("right", 4.0, scope, **two) == 0.75
    with pytest.raises(ValueError, match="variable wrong has no value"):
        metrics.acc("wrong", 4.0, scope, **two)


def test_what_servers_lack_is_said() -> None:
    with pytest.raises(EnforceNotMet, match="no cache of frequent rows"):
        fleet.save_cache_model("folder")
    with pytest.raises(EnforceNotMet, match="no cache of frequent rows"):
        fleet.save_cache_table(0, 1)
