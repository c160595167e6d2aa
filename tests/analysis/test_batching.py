"""Which updates run at once, and that what stands between them is not disturbed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.analysis.batching import batches
from refluid.analysis.update_groups import GROUP
from refluid.ir.editor import Editor
from tests.fluid.training_steps import START, build, train


def _updates(
    make: Any, attributes: dict[str, Any] | None = None, most: int = GROUP
) -> tuple[list[str], Any]:
    """Types of the operators, and the batches among them."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        loss = build(attributes or {})
        make().minimize(loss)
        ops = loss.block.ops
    return [op.type for op in ops], batches(ops, most=most)


def test_updates_of_one_setting() -> None:
    types, found = _updates(lambda: fluid.optimizer.Adagrad(0.1))
    ends = [index for index, kind in enumerate(types) if kind == "adagrad"]
    assert found == {ends[-1]: ends}


def test_learning_rates_between_them_do_not_matter() -> None:
    types, found = _updates(
        lambda: fluid.optimizer.Momentum(0.1, 0.9), {"second": {"learning_rate": 2.0}}
    )
    ends = [index for index, kind in enumerate(types) if kind == "momentum"]
    assert ends[1] == ends[0] + 2
    assert found == {ends[-1]: ends}


def test_settings_that_differ() -> None:
    _, found = _updates(
        lambda: fluid.optimizer.Lamb(
            0.1, exclude_from_weight_decay_fn=lambda param: param.name == "first"
        )
    )
    assert found == {}


@pytest.mark.parametrize(
    ("optimizer", "apart"),
    [(fluid.optimizer.SGD, True), (fluid.optimizer.Adam, False)],
    ids=["sgd", "adam"],
)
def test_sparse_gradients_stay_apart(optimizer: Any, apart: bool) -> None:
    """From dense ones, and from each other where an operator takes those of one table only; tables
    may be larger than a group."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        ids = fluid.data("ids", [-1, 1], "int64")
        rows = [fluid.embedding(ids, [GROUP, 2], is_sparse=True) for _ in range(3)]
        loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.concat(rows, 1), 1))
        optimizer(0.1).minimize(loss)
        ops = loss.block.ops
    found = [
        [ops[index].input("Param")[0][:4] for index in group] for group in batches(ops).values()
    ]
    assert sorted(found) == [*([] if apart else [["embe"] * 3]), ["fc_0"] * 2]


def test_what_reads_a_parameter_reads_it_in_order() -> None:
    """A copy of the first parameter made between two updates has its new value."""

    def minimize(loss: Any) -> Any:
        block = loss.block
        fluid.optimizer.SGD(0.1).minimize(loss)
        update = block.ops[-1]
        Editor(block).remove(update)
        copy = fluid.layers.scale(block.var("first"), 1.0)
        Editor(block).append(update)
        assert batches(block.ops) == {}
        return copy

    for step in train(minimize):
        np.testing.assert_array_equal(step["rate"], step["first"])
    assert set(START) == {"first", "second"}


@pytest.mark.parametrize(("most", "together"), [(12, 0), (13, 2)])
def test_gradients_wait_for_no_more_than_a_group(most: int, together: int) -> None:
    """Both gradients have 12 bytes."""
    _, found = _updates(lambda: fluid.optimizer.Adagrad(0.1), most=most)
    assert sum(map(len, found.values())) == together
