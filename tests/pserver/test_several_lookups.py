"""A table that is looked up for several slots trains on servers as it does in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from tests.pserver.jobs import Built, Job, Trainer

HEIGHT, STEPS = 12, 6


def network(seed: int) -> Built:
    """So many slots, wide and in what order, follow from the seed; each has weights of its own."""
    draws = np.random.default_rng(seed)
    count, width = int(draws.integers(2, 6)), int(draws.integers(1, 5))
    weights = draws.standard_normal((count * width, 1)).astype("float32")
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        slots = [fluid.data(f"slot{number}", [None, 1], "int64") for number in range(count)]
        attr = fluid.ParamAttr(name="emb", initializer=fluid.initializer.Constant(0.1))
        rows = {}
        for number in draws.permutation(count).tolist():
            one = fluid.embedding(slots[number], [HEIGHT, width], is_sparse=True, param_attr=attr)
            rows[number] = fluid.layers.reshape(one, [-1, width])
        order = draws.permutation(count).tolist()
        together = fluid.layers.concat([rows[number] for number in order], 1)
        start = fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(weights))
        out = fluid.layers.fc(together, 1, param_attr=start)
        loss = fluid.layers.mean(fluid.layers.square(out - 1.0))
        fluid.optimizer.SGD(0.05).minimize(loss)
    return main, startup, loss


def feeds(seed: int, main: Any) -> list[dict[str, Any]]:
    draws = np.random.default_rng(seed)
    names = [one.name for one in main.list_vars() if one.name.startswith("slot")]
    sizes = draws.integers(1, 9, STEPS).tolist()
    return [{one: draws.integers(0, HEIGHT, (size, 1)) for one in sorted(names)} for size in sizes]


@pytest.mark.parametrize("seed", range(5))
def test_losses_are_those_of_one_process(seed: int) -> None:
    main, startup, loss = network(seed)
    scope, exe, given = fluid.Scope(), fluid.Executor(), feeds(seed, main)
    exe.run(startup, scope=scope)
    alone = [exe.run(main, one, [loss], scope=scope)[0].item() for one in given]

    def train(trainer: Trainer) -> list[float]:
        return [trainer.step(one, [trainer.loss])[0].item() for one in given]

    (served,) = Job(lambda: network(seed), servers=2, trainers=1, sync=True).run(train)
    np.testing.assert_allclose(served, alone, rtol=1e-5)


def sequences() -> Built:
    """Two slots of sequences share a table; one weighs twice as much as the other."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        attr = fluid.ParamAttr(name="emb", initializer=fluid.initializer.Constant(0.5))
        slots = [fluid.data(one, [None, 1], "int64", lod_level=1) for one in ("few", "many")]
        rows = [fluid.layers.embedding(one, [HEIGHT, 1], True, param_attr=attr) for one in slots]
        few, many = (fluid.layers.sequence_pool(one, "sum") for one in rows)
        both = fluid.layers.scale(fluid.layers.elementwise_add(few * 2.0, many), name="pooled")
        loss = fluid.layers.mean(both)
        fluid.optimizer.SGD(0.05).minimize(loss)
    return main, startup, loss


@pytest.mark.parametrize("sync", [True, False])
def test_each_slot_keeps_its_own_sequences(sync: bool) -> None:
    ids, lengths = np.arange(10).reshape(-1, 1), {"few": [1, 2], "many": [4, 3]}
    fed = {
        name: fluid.create_lod_tensor(ids[: sum(each)], [each], fluid.CPUPlace())
        for name, each in lengths.items()
    }

    def train(trainer: Trainer) -> Any:
        return trainer.step(fed, ["pooled.tmp_0"])[0].flatten().tolist()

    (found,) = Job(sequences, servers=1, trainers=1, sync=sync).run(train)
    assert found == [(2 * 1 + 4) * 0.5, (2 * 2 + 3) * 0.5]
