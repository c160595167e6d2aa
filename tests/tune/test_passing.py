"""Loops whose steps can't be run again: dygraph, threads of a dataset, servers of tables."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from refluid.engine.choices import NONE, Choices
from refluid.engine.knobs import KnobScope
from refluid.tune.bench import Sessions
from refluid.tune.diagnosis import diagnose
from refluid.tune.learned import Learned
from refluid.tune.ratios import difference
from refluid.tune.session import Script, TrialFailed
from refluid.tune.space import applicable
from refluid.tune.tuner import seen_by
from refluid.tune.worth import Situation
from tests.tune import scripts
from tests.tune.test_window import at_gate, covered

ENDLESS = scripts.DYGRAPH.replace("STEPS", "10**9")
THREADS = NONE.put(KnobScope.DATASET, "thread", 2)
LAYERS = """\
import numpy as np
import paddle.fluid as fluid

class Network(fluid.dygraph.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.last = (fluid.dygraph.Linear(32, 32) for _ in range(2))
    def forward(self, x):
        return self.last(fluid.layers.dropout(fluid.layers.relu(self.first(x)), 0.2))

with fluid.dygraph.guard():
    network = Network()
    adam = fluid.optimizer.Adam(1e-2, parameter_list=network.parameters())
    while True:
        x = fluid.dygraph.to_variable(np.random.rand(16, 32).astype("float32"))
        loss = fluid.layers.reduce_mean(fluid.layers.square(network(x) - x))
        loss.backward()
        adam.minimize(loss)
        network.clear_gradients()
"""
SERVED = """\
import numpy as np
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    distributed_strategy_factory as factory)

fleet.init(role_maker.PaddleCloudRoleMaker())
ids, label = (fluid.data(name, [None, 1], "int64") for name in ("ids", "label"))
h = fluid.layers.reshape(fluid.embedding(ids, [100, 8], is_sparse=True), [-1, 8])
out = fluid.layers.fc(h, 2, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(out, label))
strategy = factory.DistributedStrategyFactory.create_sync_strategy()
fleet.distributed_optimizer(fluid.optimizer.SGD(1e-2), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    exe = fluid.Executor()
    exe.run(fleet.startup_program)
    fleet.init_worker()
    rng = np.random.RandomState(fleet.worker_index())
    while True:
        feed = {"ids": rng.randint(0, 100, (8, 1)), "label": rng.randint(0, 2, (8, 1))}
        exe.run(fleet.main_program, feed=feed, fetch_list=[loss])
"""


@contextmanager
def opened(folder: Path, source: str, **more: int) -> Iterator[Sessions]:
    path = folder / "train.py"
    path.write_text(source)
    sessions = Sessions(Script([str(path)], not covered(), **more), lambda _text: None)
    try:
        yield sessions
    finally:
        sessions.close()


def keys(sessions: Sessions, learned: Learned) -> set[str]:
    seen = seen_by(sessions.default(), lambda _text: None, learned)
    return {one.key for one in applicable(Situation(seen, diagnose(seen)))}


def off(sessions: Sessions, choices: Choices) -> float:
    usual, other = (sessions.block(one, 4) for one in (NONE, choices))
    assert usual.seconds > 0 and other.seconds > 0 and len(usual.losses) >= 8
    return difference(usual.losses, other.losses)


def test_a_loop_of_dygraph_goes_on_with_the_same_losses(tmp_path: Path) -> None:
    session = at_gate(tmp_path, ENDLESS)
    other = at_gate(
        tmp_path, ENDLESS, NONE.put(KnobScope.FLAG, "FLAGS_refluid_eager_direct", False)
    )
    try:
        life = session.life
        assert life.kind.at_once and life.kind.passes and life.kind.is_exact
        assert len(life.losses) > 8 and len(set(life.losses)) > 8
        count = min(len(life.losses), len(other.life.losses))
        assert other.life.losses[:count] == pytest.approx(life.losses[:count], rel=1e-6)
        with pytest.raises(TrialFailed, match="can't be run again"):
            session.ask("replay", NONE, steps=2)
        later = session.go(NONE, 5)
        assert later.steps == 5 and session.first.losses == life.losses
        assert session.ask("profile")["operators"] > 5
        assert session.go(NONE, 3).steps == 3
    finally:
        session.close()
        other.close()


def test_who_waits_takes_no_time_and_ends_with_its_tuner(tmp_path: Path) -> None:
    session = at_gate(tmp_path, ENDLESS)
    process = session._process
    deadline = time.monotonic() + 20
    while _state(process.pid) != "T" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert _state(process.pid) == "T"
    assert session.go(NONE, 2).steps == 2
    os.killpg(process.pid, signal.SIGKILL)
    with pytest.raises(TrialFailed, match=r"ended|gone"):
        session.go(NONE, 2)
    session.close()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.slow
def test_what_can_be_tried_in_dygraph(tmp_path: Path, learned: Learned) -> None:
    with opened(tmp_path, LAYERS) as sessions:
        found = keys(sessions, learned)
        assert {"declarative = True", "FLAGS_refluid_eager_direct = False"} <= found
        assert not {"enable_auto_fusion = True", "num_threads = 1"} & found
        assert off(sessions, NONE.put(KnobScope.DYGRAPH, "declarative", True)) < 1e-5
        half = off(sessions, NONE.put(KnobScope.PRECISION, "decorate", True))
        assert 0 < half < 0.05
        wrong = NONE.put(KnobScope.FLAG, "FLAGS_paddle_num_threads", 1)
        assert off(sessions, wrong) < 1e-5


@pytest.mark.slow
def test_threads_of_a_dataset(tmp_path: Path, learned: Learned) -> None:
    with opened(tmp_path, scripts.DATASETS) as sessions:
        assert "thread = 2" in keys(sessions, learned)
        assert not sessions.default().life.kind.passes
        together = sessions.block(THREADS, 4, live=True)
        alone = sessions.block(NONE, 4, live=True)
        assert together.seconds > 0 and alone.seconds > 0
        assert 0 <= difference(alone.losses, together.losses) < 0.1
        kind = sessions._session(THREADS).life.kind
        assert (kind.beside, kind.possible, kind.passes, kind.is_exact) == (2, 4, True, False)


@pytest.mark.slow
def test_workers_of_a_loader(tmp_path: Path, learned: Learned) -> None:
    with opened(tmp_path, scripts.WORKERS) as sessions:
        assert {"num_workers = 1", "num_workers = 2"} & keys(sessions, learned)
        alone = sessions.block(NONE, 0, live=True)
        several = sessions.block(NONE.put(KnobScope.LOADER, "num_workers", 3), 0, live=True)
        assert several.seconds < 0.8 * alone.seconds
        assert several.losses == pytest.approx(alone.losses, rel=1e-6)


@pytest.mark.slow
def test_trainers_with_servers_of_tables(tmp_path: Path, learned: Learned) -> None:
    with opened(tmp_path, SERVED, trainers=2, servers=1) as sessions:
        found = keys(sessions, learned)
        assert {
            "FLAGS_refluid_near_sockets = False",
            "FLAGS_communicator_send_wait_times = 1",
        } <= found
        assert not {"exchange_type = bfloat16"} & found
        first = sessions.default().first.losses
        far = NONE.put(KnobScope.FLAG, "FLAGS_refluid_near_sockets", False)
        assert sessions.block(far, 4).seconds > 0 and sessions.block(NONE, 4).seconds > 0
        assert sessions._session(far).first.losses == pytest.approx(first, rel=1e-5)
