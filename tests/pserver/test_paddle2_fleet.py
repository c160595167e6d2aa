"""Fleets of Paddle 2 with servers: scripts of both kinds of processes, strategies, refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.paddle as paddle
from refluid.collective.launch.servers import run_with_servers
from refluid.core.errors import EnforceNotMet
from refluid.core.files import decode_file
from refluid.core.ports import free_endpoints
from refluid.fluid.transpiler.distribute_transpiler import DistributedMode
from refluid.paddle.distributed import fleet
from refluid.paddle.distributed.fleet.base.served import waiting
from tests.pserver.test_fleet import job

SCRIPT = Path(__file__).with_name("paddle2_script.py")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sync", "async", "geo"])
def test_a_script_trains_with_servers(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLUID_TABLE_PASSES", "5")
    logs = tmp_path / "log"
    status = run_with_servers(job(2, 2), [str(SCRIPT), kind, str(tmp_path)], logs)
    assert status == 0, "\n".join(one.read_text() for one in sorted(logs.iterdir()))
    done = [json.loads((tmp_path / f"done-{number}").read_text()) for number in range(2)]
    for number, told in enumerate(done):
        assert (told["sum"], told["most"]) == ([3.0], 1)
        assert (told["mean"], told["right"]) == ([1.5], 0.25)
        assert told["names"] == ["worker 0", "worker 1"]
        assert told["files"] == [["a", "b"], ["c"]][number]
        assert told["losses"][-1] < told["losses"][0]
    assert (tmp_path / "model" / "__model__").is_file()
    assert [one.name for one in sorted((tmp_path / "dense").iterdir())] == ["fc_0.b_0", "w"]
    if kind != "sync":
        return
    alone = tmp_path / "alone"
    alone.mkdir()
    subprocess.run([sys.executable, str(SCRIPT), kind, str(alone)], check=True, timeout=300)
    for name in ("emb", "w"):
        found = [decode_file(one / "saved" / name).tensor for one in (tmp_path, alone)]
        np.testing.assert_allclose(*found, rtol=2e-5, atol=1e-6)
    losses = json.loads((alone / "done-0").read_text())["losses"]
    both = np.mean([one["losses"] for one in done], 0)
    np.testing.assert_allclose(both, losses, rtol=2e-5)


def test_strategies_say_how_workers_wait() -> None:
    strategy = fleet.DistributedStrategy()
    assert waiting(strategy).mode == DistributedMode.SYNC
    strategy.a_sync = True
    assert strategy.a_sync_configs["k_steps"] == 0
    strategy.a_sync_configs = {"send_queue_size": 7, "independent_recv_thread": True}
    made = waiting(strategy)
    assert made.mode == DistributedMode.ASYNC
    told = made.get_trainer_runtime_config().runtime_configs
    assert told["communicator_send_queue_size"] == 7
    assert told["communicator_independent_recv_thread"] is True
    assert told["communicator_max_merge_var_num"] == 1
    strategy.a_sync_configs = {"k_steps": 40}
    made = waiting(strategy)
    assert made.mode == DistributedMode.GEO
    assert made.get_program_config().geo_sgd_need_push_nums == 40


def built(entry: Any = None, strategy: Any = None, rate: Any = 0.1, **settings: Any) -> None:
    """Makes a server's or worker's program of a table."""
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        ids = paddle.static.data("ids", [None, 1], "int64")
        rows = paddle.static.nn.sparse_embedding(ids, [10, 4], entry=entry, **settings)
        optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(rate), strategy)
        optimizer.minimize(paddle.mean(rows))


def test_what_servers_do_not_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    paddle.enable_static()
    (server,) = free_endpoints(1)
    made = fleet.UserDefinedRoleMaker(
        current_id=0, role=fleet.Role.SERVER, worker_num=1, server_endpoints=[server]
    )
    fleet.init(made)
    try:
        assert fleet.is_server() and not fleet.is_worker()
        assert (fleet.server_num(), fleet.server_index(), fleet.worker_num()) == (1, 0, 1)
        built(paddle.distributed.CountFilterEntry(3))
        with pytest.raises(EnforceNotMet, match="servers admit rows by"):
            built(paddle.distributed.ShowClickEntry("show", "click"))
        schedule = paddle.optimizer.lr.ExponentialDecay(0.1, 0.9)
        with pytest.raises(NotImplementedError, match="ExponentialDecay"):
            built(rate=schedule)
        strategy = fleet.DistributedStrategy()
        strategy.sharding = True
        with pytest.raises(NotImplementedError, match="sharding is about workers"):
            built(strategy=strategy)
        built(table_class="SSDSparseTable")
        fleet.init_server()
        with pytest.raises(EnforceNotMet, match="REFLUID_TABLE_FOLDER"):
            fleet.run_server()
        for world in ("server", "all"):
            with pytest.raises(NotImplementedError, match="exchange nothing"):
                fleet.util.barrier(world)
    finally:
        fleet.init(is_collective=True)


def test_a_process_without_a_job_is_alone() -> None:
    paddle.enable_static()
    fleet.init()
    assert fleet.is_worker() and fleet.is_first_worker() and not fleet.is_server()
    assert (fleet.worker_num(), fleet.worker_index(), fleet.server_num()) == (1, 0, 0)
    fleet.init_worker()
    built()
    fleet.stop_worker()
    with pytest.raises(ValueError, match="for tables of servers"):
        fleet.shrink()


def test_arguments_are_checked() -> None:
    paddle.enable_static()
    distributed = paddle.distributed
    for kind, value in (
        (distributed.CountFilterEntry, -1),
        (distributed.CountFilterEntry, 1.5),
        (distributed.ProbabilityEntry, 1.5),
        (distributed.ProbabilityEntry, 1),
    ):
        with pytest.raises(ValueError, match="must be a"):
            kind(value)
    assert distributed.CountFilterEntry(3)._to_attr() == "count_filter_entry:3"
    assert distributed.ProbabilityEntry(0.25)._to_attr() == "probability_entry:0.25"
    assert distributed.ShowClickEntry("s", "c")._to_attr() == "show_click_entry:s:c"
    fleet.init()
    with pytest.raises(ValueError, match="table_class must be in"):
        built(table_class="Table")
    with pytest.raises(ValueError, match="entry must be instance"):
        built(3)
