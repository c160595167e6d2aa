"""Rows of the next step that come with a push: the same as if they were asked for later."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import refluid.fluid as fluid
from refluid.core.selected_rows import SelectedRows
from refluid.ops.comm.ahead import lookups_ahead
from refluid.pserver.layout import TrainingMode
from refluid.pserver.links import TableLink, WaitingLink
from refluid.pserver.sending import Merging, SendingLink
from refluid.pserver.split import SplitOptions, split
from refluid.pserver.table_client import TableClient
from tests.choices import often
from tests.pserver.jobs import Job, Trainer
from tests.pserver.tables import at_once, cluster, divided

STEPS, HEIGHT = 15, 40


def batch(seed: int, trainer: int, step: int) -> list[Tensor]:
    """Ids of two lookups; few, so that trainers have the same ones in the same step."""
    draws = np.random.RandomState(1000 * seed + 100 * trainer + step)
    return [torch.from_numpy(draws.randint(0, HEIGHT, draws.randint(0, 30))) for _ in range(2)]


def guesses(seed: int, trainer: int, step: int) -> list[Tensor] | None:
    """What is announced of a step: the truth mostly, else its ids in another order, or others."""
    draws = np.random.RandomState(7000 * seed + 100 * trainer + step)
    truth = batch(seed, trainer, step)
    wrong = [truth[::-1], [one.flip(0) for one in truth], batch(seed + 1, trainer, step), None]
    return truth if draws.rand() < 0.6 else wrong[draws.randint(len(wrong))]


def train(link: WaitingLink, seed: int, trainer: int, *, ahead: bool) -> list[Tensor]:
    seen = []
    for step in range(STEPS):
        ids = batch(seed, trainer, step)
        guess = guesses(seed, trainer, step + 1)
        if ahead and guess is not None:
            link.announce({"emb": guess})
        rows = torch.cat(list(link.look_up("emb", ids)))
        seen.append(rows)
        slope = torch.sin(rows + trainer + 1)
        link.send({"emb@GRAD": SelectedRows(torch.cat(ids), 1000, slope)})
        link.send({"w@GRAD": torch.ones(3, 1)})
        link.send_barrier()
        link.fetch_barrier()
    return seen


def trained(seed: int, servers: int, *, ahead: bool) -> list[list[Tensor]]:
    optimizer = fluid.optimizer.Momentum(0.3, 0.5)
    uniform = fluid.initializer.Uniform(-1.0, 1.0)
    parts = divided(
        servers=servers,
        trainers=2,
        mode=TrainingMode.SYNC,
        optimizer=optimizer,
        initializer=uniform,
    )
    with cluster(parts) as found:
        links = [WaitingLink(found.client(number)) for number in range(2)]
        return at_once(
            lambda: train(links[0], seed, 0, ahead=ahead),
            lambda: train(links[1], seed, 1, ahead=ahead),
        )


@pytest.mark.parametrize("seed", often(range(4), [0, 1, 3]))
def test_synchronous_rows_are_those_after_all_pushes(seed: int) -> None:
    servers = 1 + seed % 3
    for early, late in zip(
        trained(seed, servers, ahead=True), trained(seed, servers, ahead=False), strict=True
    ):
        assert all(torch.equal(one, other) for one, other in zip(early, late, strict=True))


def test_announced_rows_are_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    former = TableLink._rows
    monkeypatch.setattr(TableLink, "_rows", lambda *given: asked.append(given[1]) or former(*given))
    with cluster(divided(servers=2, mode=TrainingMode.HALF_ASYNC)) as found:
        link = WaitingLink(found.client())
        for step in range(5):
            link.announce({"emb": batch(0, 0, step + 1)})
            link.look_up("emb", batch(0, 0, step))
            link.send({"w@GRAD": torch.ones(3, 1)})
            link.send_barrier()
    assert len(asked) == 1


@pytest.mark.parametrize("seed", range(4))
def test_asynchronous_rows_are_those_of_what_is_looked_up(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was announced; of the truth, nothing is asked for again after the first step."""
    asked = []
    former = TableLink._rows
    monkeypatch.setattr(TableLink, "_rows", lambda *given: asked.append(given[1]) or former(*given))
    uniform = fluid.initializer.Uniform(-1.0, 1.0)
    with cluster(divided(servers=2, initializer=uniform)) as found:
        link = SendingLink(found.client(), Merging())
        wrong = 0
        for step in range(STEPS):
            guess = guesses(seed, 0, step + 1)
            if guess is not None:
                link.announce({"emb": guess})
            ids = batch(seed, 0, step)
            rows, expected = link.look_up("emb", ids), link.client.rows("emb", torch.cat(ids))
            assert torch.equal(torch.cat(list(rows)), expected)
            told = step and guesses(seed, 0, step)
            wrong += not told or not torch.equal(torch.cat(told), torch.cat(ids))
        link.close()
    assert len(asked) == wrong < STEPS


def test_what_is_pushed_at_a_barrier_is_seen_afterwards() -> None:
    """Though its rows were asked for before, and never looked up until then."""
    ids = torch.arange(10)
    with cluster(divided(servers=2)) as found:
        link = SendingLink(found.client(), Merging())
        link.announce({"emb": [ids]})
        link._known.steps[-1].rows.result()
        link.send({"emb@GRAD": SelectedRows(ids, 1000, torch.ones(10, 4))})
        link.flush()
        (rows,) = link.look_up("emb", [ids])
        assert rows.unique().tolist() == [-1.0]
        link.close()


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_several_tables_come_in_one_call(seed: int) -> None:
    """Some servers have none of a table's ids, or of any."""
    draws, width = np.random.RandomState(seed), {"first": 3, "second": 5}
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [None, 1], "int64")
        parts = []
        for name, size in width.items():
            first = fluid.initializer.Uniform(-1.0, 1.0)
            attr = fluid.ParamAttr(name=name, initializer=first)
            rows = fluid.layers.embedding(ids, [90, size], is_sparse=True, param_attr=attr)
            parts.append(fluid.layers.reduce_sum(rows))
        fluid.optimizer.SGD(0.1).minimize(parts[0] + parts[1])
    names = [f"127.0.0.1:{number}" for number in range(1 + seed)]
    asked: list[int] = []
    with cluster(split(main, startup, names, 1, 0, TrainingMode.ASYNC, SplitOptions())) as found:
        client = found.client()
        for _ in range(12):
            counts = [int(draws.choice([0, 1, 2, 40])) for _ in width]
            wanted = {
                name: torch.from_numpy(draws.randint(0, 90, count))
                for name, count in zip(width, counts, strict=True)
            }
            alone = {name: client.rows(name, one) for name, one in wanted.items()}
            together = client.known_rows(wanted)
            for name, one in wanted.items():
                assert torch.equal(together[name].of(one), alone[name])
            asked.append(sum(counts))
        client.leave()
    assert len({*asked}) > 2


def network() -> Any:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [None, 1], "int64")
        x = fluid.data("x", [None, 1], "float32")
        attr = fluid.ParamAttr(name="emb", initializer=fluid.initializer.Uniform(-1.0, 1.0))
        rows = fluid.layers.embedding(ids, [HEIGHT, 2], is_sparse=True, param_attr=attr)
        first = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.5))
        out = fluid.layers.fc(rows, 1, param_attr=first, bias_attr=False)
        loss = fluid.layers.mean(out * x)
        fluid.optimizer.SGD(0.1).minimize(loss)
    return main, startup, loss


def from_dataset(folder: Path, *, ahead: bool) -> tuple[Any, int]:
    """The table after a pass of one trainer, and how often it asked for rows."""
    job = Job(network, 2, 1, True)
    variables = [job.trainers[0].main.global_block().var(name) for name in ("ids", "x")]
    asked = [0]

    def run(trainer: Trainer) -> Any:
        dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
        dataset.set_use_var(variables)
        dataset.set_batch_size(5)
        dataset.set_filelist([str(folder / "samples")])
        dataset.load_into_memory()
        client: TableClient = trainer.main._servers.link.client
        former = client.known_rows

        def counted(*given: Any, **named: Any) -> Any:
            asked[0] += 1
            return former(*given, **named)

        client.known_rows = counted  # type: ignore[method-assign]
        with fluid.scope_guard(trainer.scope):
            fluid.set_flags({"FLAGS_refluid_prefetch_rows": ahead})
            trainer.executor.train_from_dataset(trainer.main, dataset, thread=1)
            fluid.set_flags({"FLAGS_refluid_prefetch_rows": True})
        return client.rows("emb", torch.arange(HEIGHT))

    return job.run(run)[0], asked[0]


def test_datasets_announce_what_comes_next(tmp_path: Path) -> None:
    draws = np.random.RandomState(1)
    lines = [f"1 {draws.randint(HEIGHT)} 1 {draws.rand():.3f}" for _ in range(200)]
    (tmp_path / "samples").write_text("\n".join(lines) + "\n")
    (early, few), (late, all_of_them) = (
        from_dataset(tmp_path, ahead=ahead) for ahead in (True, False)
    )
    assert torch.equal(early, late)
    assert all_of_them == 41
    assert few < 40


def reading_network() -> Any:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        reader = fluid.layers.py_reader(
            8, [[-1, 1], [-1, 1]], ["int64", "float32"], name="given", use_double_buffer=False
        )
        ids, x = fluid.layers.read_file(reader)
        attr = fluid.ParamAttr(name="emb", initializer=fluid.initializer.Uniform(-1.0, 1.0))
        rows = fluid.layers.embedding(ids, [HEIGHT, 2], is_sparse=True, param_attr=attr)
        first = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.5))
        out = fluid.layers.fc(rows, 1, param_attr=first, bias_attr=False)
        loss = fluid.layers.mean(out * x)
        fluid.optimizer.SGD(0.1).minimize(loss)
    main.given = reader
    return main, startup, loss


def from_reader(seed: int, *, ahead: bool, sync: bool = True) -> tuple[Any, int]:
    """The table after two passes of a py_reader, and how often its trainer asked for rows."""
    job = Job(reading_network, 2, 1, sync, half_async=not sync)
    draws = np.random.RandomState(seed)
    sizes = draws.randint(1, 9, 12)
    batches = [(draws.randint(0, HEIGHT, (n, 1)), draws.rand(n, 1).astype("f4")) for n in sizes]
    asked = [0]

    def run(trainer: Trainer) -> Any:
        client: TableClient = trainer.main._servers.link.client
        former = client.known_rows

        def counted(*given: Any, **named: Any) -> Any:
            asked[0] += 1
            return former(*given, **named)

        client.known_rows = counted  # type: ignore[method-assign]
        reader = trainer.main.given
        reader.decorate_tensor_provider(lambda: iter(batches))
        with fluid.scope_guard(trainer.scope):
            fluid.set_flags({"FLAGS_refluid_prefetch_rows": ahead})
            for _ in range(2):
                reader.start()
                with pytest.raises(fluid.core.EOFException):
                    while True:
                        time.sleep(0.01)  # the reader's thread is ahead
                        trainer.executor.run(trainer.main)
                reader.reset()
            fluid.set_flags({"FLAGS_refluid_prefetch_rows": True})
        return client.rows("emb", torch.arange(HEIGHT))

    return job.run(run)[0], asked[0]


@pytest.mark.parametrize("seed", often(range(3), range(2)))
def test_readers_announce_what_comes_next(seed: int) -> None:
    (early, few), (late, all_of_them) = (
        from_reader(seed, ahead=ahead, sync=seed % 2 == 0) for ahead in (True, False)
    )
    assert torch.equal(early, late)
    assert all_of_them == 25
    assert few < 20


def test_which_lookups_are_known_before_a_step() -> None:
    job = Job(network, 1, 1, True)
    program = job.trainers[0].main
    (one,) = lookups_ahead(program, frozenset(["ids", "x"]))
    assert (one.table, one.names) == ("emb", ("ids",))
    assert not lookups_ahead(program, frozenset(["x"]))
    job.run(lambda _trainer: None)
