"""Who listens to runs hears of all, changes nothing, and may run them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.scope import Scope
from refluid.engine.listening import RunCall, heard_by
from tests.fluid.dataset_network import TOTAL, write_files

NAMES = {"ids", "words", "x", "label"}


def data(paths: list[str], kind: str, names: list[Any], threads: int) -> Any:
    found = fluid.DatasetFactory().create_dataset(kind)
    found.set_batch_size(8)
    found.set_use_var(names)
    found.set_filelist(paths)
    found.set_thread(threads)
    if kind == "InMemoryDataset":
        found.load_into_memory()
    return found


def trained(paths: list[str], kind: str, thread: int) -> dict[str, bytes]:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids, label = (fluid.data(name, [None, 1], "int64") for name in ("ids", "label"))
        words = fluid.data("words", [None, 1], "int64", lod_level=1)
        x = fluid.data("x", [None, 3])
        pooled = fluid.layers.sequence_pool(fluid.embedding(words, [50, 4]), "sum")
        out = fluid.layers.fc([pooled, x], 2, act="softmax")
        loss = fluid.layers.mean(fluid.layers.cross_entropy(out, label))
        fluid.optimizer.Adam(0.01).minimize(loss)
    scope = Scope()
    with fluid.scope_guard(scope):
        executor = fluid.Executor()
        executor.run(startup)
        dataset = data(paths, kind, [ids, words, x, label], thread)
        executor.train_from_dataset(main, dataset, thread=thread, fetch_list=[loss], print_period=9)
        found = {}
        for var in main.list_vars():
            held = scope.find_var(var.name)
            if var.persistable and held is not None:
                found[var.name] = np.asarray(held.value).tobytes()
        return found


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
def test_batches_of_a_dataset_are_heard(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, heard = write_files(tmp_path), []
    plain = trained(paths, kind, 1)
    printed = capsys.readouterr().out

    def hear(call: RunCall) -> list[Any]:
        if not call.feed:  # the startup program
            return call()
        heard.append(call)
        results = call()
        assert len(call.names) == len(results) == 1 and set(call.feed) == NAMES
        return results

    with heard_by(hear):
        assert trained(paths, kind, 1) == plain
        assert capsys.readouterr().out == printed
        assert len(heard) == -(-TOTAL // 8)
    assert sum(len(call.feed["x"].tensor) for call in heard) == TOTAL
    assert {(call.beside, call.possible) for call in heard} == {(1, len(paths))}


def test_of_several_threads_the_first_is_heard(tmp_path: Path) -> None:
    heard: list[RunCall] = []

    def hear(call: RunCall) -> list[Any]:
        if call.feed:
            heard.append(call)
        return call()

    with heard_by(hear):
        trained(write_files(tmp_path), "InMemoryDataset", 2)
    assert 0 < len(heard) <= 31 and {call.beside for call in heard} == {2}
    assert len({call.key for call in heard}) == 1


def test_listeners_hear_through_one_another() -> None:
    order: list[str] = []

    def named(name: str) -> Any:
        def hear(call: RunCall) -> list[Any]:
            order.append(f"{name} begins")
            results = call()
            order.append(f"{name} ends")
            return results

        return hear

    executor = fluid.Executor()
    with heard_by(named("outer")), heard_by(named("inner")):
        executor.run(fluid.Program())
    assert order == ["inner begins", "outer begins", "outer ends", "inner ends"]
    executor.run(fluid.Program())
    assert len(order) == 4


def test_steps_of_dygraph_are_heard() -> None:
    counts = [0, 0]

    def counting(which: int) -> Any:
        def count(_loss: object) -> None:
            counts[which] += 1

        return count

    def passing(call: RunCall) -> list[Any]:
        return call()

    with fluid.dygraph.guard():
        layer = fluid.dygraph.Linear(3, 1)
        sgd = fluid.optimizer.SGD(0.1, parameter_list=layer.parameters())

        def step() -> None:
            loss = fluid.layers.reduce_mean(layer(fluid.dygraph.to_variable(np.ones((2, 3), "f"))))
            loss.backward()
            sgd.minimize(loss)
            layer.clear_gradients()

        step()
        with heard_by(passing, steps=counting(0)):
            step()
            with heard_by(passing, steps=counting(1)):
                step()
        step()
    assert counts == [2, 1]
