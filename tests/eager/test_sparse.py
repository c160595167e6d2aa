"""Gradients of sparse tables are rows; optimizers update those rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.selected_rows import SelectedRows
from refluid.fluid import dygraph

OPTIMIZERS = {
    "sgd": lambda **more: fluid.optimizer.SGD(0.1, **more),
    "lazy adam": lambda **more: fluid.optimizer.Adam(0.1, lazy_mode=True, **more),
    "adam": lambda **more: fluid.optimizer.Adam(0.1, **more),
    "adagrad": lambda **more: fluid.optimizer.Adagrad(0.1, **more),
    "momentum": lambda **more: fluid.optimizer.Momentum(0.1, 0.9, **more),
}
START = np.random.RandomState(1).rand(6, 3).astype("float32")
BATCHES = [np.random.RandomState(n).randint(0, 6, (2, 2)) for n in range(4)]


def attr() -> Any:
    start = fluid.initializer.NumpyArrayInitializer(START)
    return fluid.ParamAttr(name="table", initializer=start)


def loss_of(rows: Any) -> Any:
    return fluid.layers.reduce_sum(rows * rows)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_is_that_of_a_program(name: str) -> None:
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [2, 2], "int64")
        OPTIMIZERS[name]().minimize(loss_of(fluid.embedding(ids, [6, 3], True, param_attr=attr())))
    executor = fluid.Executor()
    executor.run(startup, scope=scope)
    with dygraph.guard():
        table = dygraph.Embedding([6, 3], is_sparse=True, param_attr=attr())
        chosen = OPTIMIZERS[name](parameter_list=table.parameters())
        for batch in BATCHES:
            executor.run(main, {"ids": batch}, scope=scope)
            loss = loss_of(table(dygraph.to_variable(batch)))
            loss.backward()
            assert (
                isinstance(table.weight.gradient_value, SelectedRows)
                and table.weight.tensor.grad is None
            )
            chosen.minimize(loss)
            table.clear_gradients()
            wanted = np.array(scope.find_var("table").get_tensor())
            np.testing.assert_allclose(table.weight.numpy(), wanted, rtol=1e-6)


def test_gradients_of_rows_add_up() -> None:
    with dygraph.guard():
        sparse, dense = (
            dygraph.Embedding([6, 3], is_sparse=kind, param_attr=attr()) for kind in (True, False)
        )
        for batch in BATCHES:
            for table in (sparse, dense):
                loss_of(table(dygraph.to_variable(batch))).backward()
        values, rows = sparse.weight.gradient()
        assert values.shape == (16, 3) and rows.shape == (16,)
        found = np.zeros((6, 3), "float32")
        np.add.at(found, rows, values)
        np.testing.assert_allclose(found, dense.weight.gradient(), rtol=1e-5)
        sparse.clear_gradients()
        assert sparse.weight.gradient() is None


def test_rows_and_dense_gradients_add_up() -> None:
    with dygraph.guard():
        table = dygraph.Embedding([6, 3], is_sparse=True, param_attr=attr())
        ids = dygraph.to_variable(BATCHES[0])
        (loss_of(table(ids)) + fluid.layers.reduce_sum(table.weight)).backward()
        wanted = np.ones((6, 3), "float32")
        np.add.at(wanted, BATCHES[0].reshape(-1), 2 * START[BATCHES[0].reshape(-1)])
        np.testing.assert_allclose(table.weight.gradient(), wanted, rtol=1e-5)


def test_grad_changes_no_variable() -> None:
    with dygraph.guard():
        table = dygraph.Embedding([6, 3], is_sparse=True, param_attr=attr())
        loss = loss_of(table(dygraph.to_variable(BATCHES[0])))
        (found,) = dygraph.grad(loss, table.weight)
        assert found.shape == [6, 3] and table.weight.gradient() is None
