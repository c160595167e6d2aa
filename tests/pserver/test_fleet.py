"""Fleets with servers, each process started by the launcher: every mode, files, who they are."""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import refluid.fluid as fluid
from refluid.collective.launch.servers import ServerJob, run_with_servers
from refluid.core.ports import free_endpoints
from refluid.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    DistributeTranspilerConfig,
    StrategyFactory,
)
from tests.pserver.ctr_script import write_files

SCRIPT = Path(__file__).with_name("ctr_script.py")


def job(servers: int, workers: int) -> ServerJob:
    ports = free_endpoints(servers + workers)
    return ServerJob(tuple(ports[:servers]), tuple(ports[servers:]))


def run(mode: str, folder: Path) -> None:
    logs = folder / "log"
    status = run_with_servers(job(2, 2), [str(SCRIPT), mode, str(folder)], logs)
    told = "\n".join(one.read_text() for one in sorted(logs.iterdir()))
    assert status == 0, told


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async", "half_async", "geo", "async on disk"])
def test_a_fleet_learns_and_saves(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_files(str(tmp_path), 4, 400)
    mode, _, on_disk = mode.partition(" ")
    if on_disk:
        pytest.importorskip("lmdb")
        monkeypatch.setenv("REFLUID_TABLE_FOLDER", str(tmp_path / "tables"))
    run(mode, tmp_path)
    done = [json.loads((tmp_path / f"done-{number}").read_text()) for number in range(2)]
    assert done == [{"total": 3.0, "first": True}, {"total": 3.0, "first": False}]
    executor, scope = fluid.Executor(), fluid.Scope()
    with fluid.scope_guard(scope):
        program, names, targets = fluid.io.load_inference_model(str(tmp_path / "model"), executor)
        lines = [line.split() for path in files for line in Path(path).read_text().splitlines()]
        ids = np.array([[int(line[2 * i + 1]) for i in range(3)] for line in lines])
        dense = np.array([[float(line[7]), float(line[8])] for line in lines], "float32")
        labels = np.array([int(line[10]) for line in lines])
        ones = [[1] * len(lines)]
        feed = {
            name: fluid.create_lod_tensor(ids[:, [i]], ones, fluid.CPUPlace())
            for i, name in enumerate(names[:3])
        }
        (predicted,) = executor.run(
            program, feed={**feed, names[3]: dense}, fetch_list=targets, scope=scope
        )
    right = (predicted.argmax(1) == labels).mean()
    assert right > 0.6
    saved = {one.name for one in (tmp_path / "saved").iterdir()}
    assert {"emb", "fc_0.w_0", "fc_0.w_0_moment1_0", "learning_rate_0"} <= saved
    assert (tmp_path / "tables" / "server-1" / "data.mdb").is_file() == bool(on_disk)


def kill_a_server(log: Path, how: int) -> None:
    """Sends the job's second server a signal, once its log of messages has grown."""
    until = time.monotonic() + 120
    while time.monotonic() < until and not (log.is_file() and log.stat().st_size > 100_000):
        time.sleep(0.02)
    for process in psutil.Process().children(recursive=True):
        found = process.environ()
        last = found.get("PADDLE_PSERVERS_IP_PORT_LIST", "").rpartition(",")[2]
        if found.get("TRAINING_ROLE") == "PSERVER" and found["PADDLE_CURRENT_ENDPOINT"] == last:
            process.send_signal(how)
            return
    raise AssertionError("the server isn't there")


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_job_goes_on_when_a_server_is_killed(
    mode: str,
    how: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_files(str(tmp_path), 4, 2000)
    monkeypatch.setenv("REFLUID_SERVER_CHECKPOINTS", str(tmp_path / "kept"))
    monkeypatch.setenv("REFLUID_SERVER_LOG", "1")
    killing = threading.Thread(
        target=kill_a_server, args=(tmp_path / "kept" / "server-1" / "log-0", how)
    )
    killing.start()
    arguments = [str(SCRIPT), mode, str(tmp_path)]
    status = run_with_servers(job(2, 2), arguments, tmp_path / "log", max_restarts=1)
    killing.join()
    assert status == 0
    code = -how if how == signal.SIGKILL else 128 + how
    assert f"serverlog.1: a server ended ({code}) and is started again" in capsys.readouterr().out
    assert {"done-0", "done-1", "saved"} <= {one.name for one in tmp_path.iterdir()}


def test_strategies_are_what_they_say() -> None:
    sync = StrategyFactory.create_sync_strategy()
    assert sync.get_program_config().sync_mode
    sync.set_program_config({"min_block_size": 81920})
    assert sync.get_program_config().min_block_size == 81920
    config = DistributeTranspilerConfig()
    config.min_block_size = 100
    half = StrategyFactory.create_half_async_strategy()
    half.set_program_config(config)
    assert half.get_program_config() is config
    assert config.half_async
    assert not config.sync_mode
    geo = StrategyFactory.create_geo_strategy(400)
    assert geo.get_program_config().geo_sgd_need_push_nums == 400
    with pytest.raises(ValueError, match="doesn't have key: no_such"):
        geo.set_program_config({"no_such": 1})
    with pytest.raises(TypeError, match="only dict and DistributeTranspilerConfig"):
        geo.set_program_config(3)
    config = StrategyFactory.create_async_strategy()
    config.set_trainer_runtime_config({"communicator_send_queue_size": 7})
    told = config.get_trainer_runtime_config()
    assert told.get_communicator_flags()["communicator_send_queue_size"] == "7"
    assert "communicator_send_queue_size" in repr(told)
