"""How trainers wait: GEO in the background, flags of the communicator, replicas and threads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.comm.servers import LOOKED_UP
from refluid.core import flags
from refluid.pserver.connecting import Connection
from refluid.pserver.geo import DeltaLink
from refluid.pserver.layout import TrainingMode
from refluid.pserver.sending import Merging, SendingLink
from refluid.pserver.table_client import TableClient
from tests.pserver.jobs import Job, Trainer
from tests.pserver.tables import cluster, divided
from tests.pserver.test_modes import fed, one_row, one_weight

MODES = {
    "sync": (True, {}),
    "async": (False, {}),
    "half_async": (False, {"half_async": True}),
    "geo": (False, {"geo_sgd_mode": True, "geo_sgd_need_push_nums": 2}),
}


@pytest.fixture
def kept_flags() -> Iterator[None]:
    names = ("communicator_fake_rpc", "refluid_overlap_geo", "communicator_max_merge_var_num")
    former = {f"FLAGS_{name}": flags.value(name) for name in names}
    yield
    fluid.set_flags(former)


# -- GEO ----------------------------------------------------------------------


class GeoTrainer:
    """Parameters of one trainer that the test changes by whole numbers."""

    def __init__(self, client: TableClient, frequency: int, *, waits: bool) -> None:
        self.link = DeltaLink(client, frequency, waits=waits)
        self.values = {"w": torch.zeros(3, 1), "emb": torch.zeros(1000, 4)}
        self.link.receive(self.values, wait=True)

    def step(self, ids: list[int], change: float) -> None:
        self.values["w"] += change
        self.values["emb"][ids] += change
        touched = torch.tensor(ids)
        self.link.send({**self.values, f"emb{LOOKED_UP}0": touched})
        self.link.receive(self.values, wait=False)


@pytest.mark.parametrize("frequency", [1, 2, 3])
@pytest.mark.parametrize("waits", [True, False])
def test_nothing_is_lost_whenever_exchanges_end(frequency: int, waits: bool) -> None:
    draws = np.random.RandomState(frequency)
    with cluster(divided(servers=2, trainers=2, mode=TrainingMode.GEO)) as found:
        both = [GeoTrainer(found.client(number), frequency, waits=waits) for number in range(2)]
        w, emb = np.zeros(3), np.zeros(1000)
        for _ in range(20):
            one = both[draws.randint(2)]
            ids, change = draws.permutation(6)[:3].tolist(), float(draws.randint(-4, 5))
            one.step(ids, change)
            w += change / 2
            emb[ids] += change / 2
        for one in both:
            one.link.flush()
        client = both[0].link.client
        assert client.pull()["w"].flatten().tolist() == w.tolist()
        rows = client.rows("emb", torch.arange(1000))
        assert rows[:, 2].tolist() == emb.tolist()


def test_training_goes_on_during_an_exchange() -> None:
    with cluster(divided(mode=TrainingMode.GEO)) as found:
        trainer = GeoTrainer(found.client(), 2, waits=False)
        asked, go = threading.Event(), threading.Event()
        former = trainer.link.client.push_and_pull

        def slowly(*given: Any, **named: Any) -> Any:
            asked.set()
            assert go.wait(60.0)
            return former(*given, **named)

        trainer.link.client.push_and_pull = slowly  # type: ignore[method-assign]
        for _ in range(2):
            trainer.step([1], 1.0)
        assert asked.wait(60.0)
        trainer.step([1], 5.0)
        assert trainer.values["emb"][1].tolist() == [7.0] * 4
        assert found.servers[0].pushes == 0
        go.set()
        trainer.link.flush()
        assert trainer.values["emb"][1].tolist() == [7.0] * 4
        rows = trainer.link.client.rows("emb", torch.tensor([1, 2]))
        assert rows[:, 0].tolist() == [7.0, 0.0]
        trainer.link.close()


def test_a_trainer_that_python_ends_sends_what_is_left() -> None:
    """Threads of a pool can't be asked once Python ends, which is when such a link is closed."""
    with cluster(divided(mode=TrainingMode.GEO)) as found:
        trainer = GeoTrainer(found.client(), 2, waits=False)
        for change in (1.0, 2.0, 4.0):
            trainer.step([1], change)
        trainer.link._pool.shutdown()
        trainer.link.flush()
        assert trainer.link.client.pull()["w"].flatten().tolist() == [7.0] * 3
        trainer.link.close()


@pytest.mark.usefixtures("kept_flags")
@pytest.mark.parametrize("overlap", [True, False])
def test_geo_of_two_trainers_ends_alike(overlap: bool) -> None:
    fluid.set_flags({"FLAGS_refluid_overlap_geo": overlap})
    settings = {"geo_sgd_mode": True, "geo_sgd_need_push_nums": 2}

    def train(trainer: Trainer) -> float:
        for _ in range(3):
            trainer.step(fed(trainer))
        link = trainer.main._servers.link
        link.flush()
        return float(link.look_up("w", [torch.tensor([3])])[0].item())

    found = Job(one_row, 2, 2, False, **settings).run(train)
    np.testing.assert_allclose(min(found), -0.65, rtol=1e-5)


# -- ends ---------------------------------------------------------------------


def test_nothing_follows_a_trainers_end() -> None:
    """The thread that pulls is in the middle of a call when the link is closed."""
    with cluster(divided()) as found:
        client, asked, told = found.client(), threading.Event(), []
        former, former_leave = client.pull, client.leave

        def slowly() -> Any:
            asked.set()
            time.sleep(0.2)
            told.append("pull")
            return former()

        def leave() -> None:
            told.append("leave")
            former_leave()

        client.pull, client.leave = slowly, leave  # type: ignore[method-assign]
        link = SendingLink(client, Merging(pulls_after=1))
        link.send({"w@GRAD": torch.ones(3, 1)})
        assert asked.wait(60.0)
        link.close()
        assert told[-1] == "leave"
        assert found.servers[0].over


# -- flags --------------------------------------------------------------------


@pytest.mark.usefixtures("kept_flags")
@pytest.mark.parametrize("mode", MODES)
def test_without_calls_nothing_reaches_the_servers(mode: str) -> None:
    sync, settings = MODES[mode]

    def train(trainer: Trainer) -> Any:
        for _ in range(4):
            trainer.step(fed(trainer), [trainer.loss])
        link = trainer.main._servers.link
        link.flush()
        return link.client.state()[0]["pushes"]

    fluid.set_flags({"FLAGS_communicator_fake_rpc": True})
    assert Job(one_row, 1, 1, sync, **settings).run(train) == [0]


def test_flags_that_ask_for_what_is_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "refluid"):
        fluid.set_flags({"FLAGS_communicator_thread_pool_size": 7})
        fluid.set_flags({"FLAGS_communicator_thread_pool_size": 5})
    assert "what refluid does in any case" in caplog.text


# -- replicas and threads -----------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reduce", [False, True])
def test_replicas_of_a_trainer_that_is_fed(mode: str, reduce: bool) -> None:
    """Two replicas have gradients 1 and 10: their mean is what the trainer sends."""
    sync, settings = MODES[mode]

    def train(trainer: Trainer) -> float:
        strategy = fluid.BuildStrategy()
        kinds = fluid.BuildStrategy.ReduceStrategy
        strategy.reduce_strategy = kinds.Reduce if reduce else kinds.AllReduce
        compiled = fluid.CompiledProgram(trainer.main).with_data_parallel(
            trainer.loss.name, strategy, places=[fluid.CPUPlace()] * 2
        )
        feed = {"x": np.array([[1.0], [10.0]], "float32")}
        for _ in range(4):
            trainer.executor.run(compiled, feed=feed, scope=trainer.scope)
        link = trainer.main._servers.link
        link.flush()
        return float(link.client.pull()["w"].item())

    (found,) = Job(one_weight, 1, 1, sync, **settings).run(train)
    np.testing.assert_allclose(found, 1.0 - 4 * 0.55, rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_replicas_of_a_trainer_that_look_up_other_rows(mode: str) -> None:
    """Rows 3 and 5 have gradients 0.5 and 5: servers have what came of both."""
    sync, settings = MODES[mode]

    def train(trainer: Trainer) -> list[float]:
        compiled = fluid.CompiledProgram(trainer.main).with_data_parallel(
            trainer.loss.name, places=[fluid.CPUPlace()] * 2
        )
        feed = {"ids": np.array([[3], [5]]), "x": np.array([[1.0], [10.0]], "float32")}
        for _ in range(4):
            trainer.executor.run(compiled, feed=feed, scope=trainer.scope)
        link = trainer.main._servers.link
        link.flush()
        found: list[float] = link.client.rows("w", torch.tensor([3, 4, 5])).reshape(-1).tolist()
        return found

    (found,) = Job(one_row, 1, 1, sync, **settings).run(train)
    np.testing.assert_allclose(found, [0.8, 1.0, -1.0], rtol=1e-5)


@pytest.mark.parametrize("mode", ["async", "half_async"])
def test_threads_of_a_trainer_on_a_dataset(mode: str, tmp_path: Path) -> None:
    """Each batch of the dataset counts once: 100 of slope 1 at the one row."""
    sync, settings = MODES[mode]
    for number in range(4):
        (tmp_path / f"part-{number}").write_text("1 3 1 1.0\n" * 25)
    job = Job(one_row, 1, 1, sync, **settings)
    block = job.trainers[0].main.global_block()

    def train(trainer: Trainer) -> float:
        dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
        dataset.set_use_var([block.var("ids"), block.var("x")])
        dataset.set_batch_size(1)
        dataset.set_thread(3)
        dataset.set_filelist([str(one) for one in sorted(tmp_path.iterdir())])
        with fluid.scope_guard(trainer.scope):
            trainer.executor.train_from_dataset(trainer.main, dataset, thread=3)
        link = trainer.main._servers.link
        link.flush()
        return float(link.look_up("w", [torch.tensor([3])])[0].item())

    (found,) = job.run(train)
    np.testing.assert_allclose(found, 1.0 - 100 * 0.1, rtol=1e-4)


def test_threads_that_begin_together_open_one_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clients of one trainer would take each other for a process that began anew."""
    entered = []

    class SlowClient:
        def enter(self) -> None:
            entered.append(self)
            time.sleep(0.05)

        def close(self) -> None:
            entered.clear()

    monkeypatch.setattr(Connection, "_client", lambda connection: SlowClient())
    monkeypatch.setattr(Connection, "_made", lambda connection, client: client)
    split: Any = SimpleNamespace(where="a place of this test")
    connection = Connection(split)
    with ThreadPoolExecutor(4) as threads:
        links = set(threads.map(lambda _: connection.open(), range(4)))
    assert list(links) == entered
    connection.close()
    assert not connection.is_open and not entered
