"""Ids that are no row of a table are refused by trainers as by one process; hashes are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.comm.servers import drop_link, put_link
from refluid.core.errors import EnforceNotMet
from refluid.ops.comm.ahead import announce, lookups_ahead
from tests.pserver.jobs import Built, Job, Trainer

HEIGHT = 10


def network(*, distributed: bool = False, slots: int = 1) -> Built:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        attr = fluid.ParamAttr(name="emb", initializer=fluid.initializer.Constant(0.5))
        found = []
        for number in range(slots):
            ids = fluid.data(f"ids{number}", [None, 1], "int64")
            told = {"is_sparse": True, "is_distributed": distributed, "param_attr": attr}
            found.append(fluid.layers.embedding(ids, [HEIGHT, 2], **told))
        loss = fluid.layers.mean(fluid.layers.concat(found, 1))
        fluid.optimizer.SGD(0.5).minimize(loss)
    return main, startup, loss


def given(*columns: list[int]) -> dict[str, Any]:
    return {f"ids{i}": np.array(one, "int64")[:, None] for i, one in enumerate(columns)}


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("wrong", [HEIGHT, -1, 2**40])
def test_an_id_that_is_no_row_is_refused(sync: bool, wrong: int) -> None:
    def train(trainer: Trainer) -> list[str]:
        told = []
        for feed in (given([1, wrong], [2, 3]), given([1, 0], [wrong, 3])):
            with pytest.raises(EnforceNotMet) as caught:
                trainer.step(feed, [trainer.loss])
            told.append(str(caught.value))
        assert trainer.step(given([1, 9], [0, 1]), [trainer.loss])[0].item() == 0.5
        (state,) = trainer.main._servers.link.client.state()
        told.append(state["rows"]["emb"])
        return told

    ((first, second, rows),) = Job(lambda: network(slots=2), 1, 1, sync).run(train)
    for told in (first, second):
        assert f"expected >= 0 and < {HEIGHT}, but got {wrong}" in told
        assert "is no row of table 'emb'" in told
        assert "found.append(fluid.layers.embedding(ids" in told
    assert "element 1 of Ids" in first
    assert "element 0 of Ids" in second
    assert rows <= 3  # of the step that was right


def test_ids_of_a_distributed_table_are_any_numbers() -> None:
    def train(trainer: Trainer) -> float:
        found = trainer.step(given([2**40, -7]), [trainer.loss])
        value: float = found[0].item()
        return value

    assert Job(lambda: network(distributed=True), 1, 1, sync=True).run(train) == [0.5]


class Told:
    """A link that keeps what is announced."""

    def __init__(self) -> None:
        self.ids: list[Any] = []

    def announce(self, ids: Any) -> None:
        self.ids.append(ids)


def test_ids_that_will_be_refused_are_not_asked_for_ahead() -> None:
    main, startup, _ = network()
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(0, program=main, startup_program=startup, trainers=1)
    where = ("127.0.0.1:6174",), 0
    link: Any = Told()
    put_link(where, link)
    try:
        (lookup,) = lookups_ahead(main, frozenset(["ids0"]))
        for ids in ([[1], [HEIGHT]], [[-1]], [[1], [HEIGHT - 1]]):
            announce([lookup], {"ids0": torch.tensor(ids)})
    finally:
        drop_link(where)
    assert [one["emb"][0].tolist() for one in link.ids] == [[1, HEIGHT - 1]]
