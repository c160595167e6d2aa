"""Gradients of tables that are used twice: their rows are added where they belong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.core.dtypes import VarType
from refluid.ir.program import Program
from refluid.passes.add_table_rows import add_table_rows
from refluid.passes.protocol import Options

layers = fluid.layers
WORDS, WIDTH, STEPS = 11, 4, 3
Array = np.ndarray[Any, np.dtype[Any]]


class Model:
    """Predicts words from words; `tied`: by the table that it looks them up in."""

    def __init__(self, *, tied: bool, lookups: int = 1, padding: int | None = None) -> None:
        self.main, self.startup = fluid.Program(), fluid.Program()
        self.startup.random_seed = 3
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            words = [fluid.data(f"words{one}", [None], "int64") for one in range(lookups)]
            next_word = fluid.data("next", [None, 1], "int64")
            table = fluid.ParamAttr(name="table")
            found = [
                fluid.embedding(one, [WORDS, WIDTH], padding_idx=padding, param_attr=table)
                for one in words
            ]
            hidden = layers.fc(layers.sums(found), WIDTH, act="tanh")
            weights = self.main.global_block().var("table")
            scores = (
                layers.matmul(hidden, weights, transpose_y=True)
                if tied
                else layers.fc(hidden, WORDS)
            )
            self.loss = layers.mean(layers.softmax_with_cross_entropy(scores, next_word))
            fluid.optimizer.Adam(0.1).minimize(self.loss)
        random = np.random.RandomState(2)
        names = [var.name for var in words] + ["next"]
        self.feed = {name: random.randint(0, WORDS, (16, 1)) for name in names}
        for name in names[:-1]:
            self.feed[name] = self.feed[name][:, 0]

    def run(self, program: Program) -> tuple[list[float], Array]:
        """The losses of some steps, and the table afterwards."""
        executor = fluid.Executor()
        with fluid.scope_guard(fluid.Scope()):
            executor.run(self.startup)
            losses = [
                float(executor.run(program, feed=self.feed, fetch_list=[self.loss])[0].item())
                for _ in range(STEPS)
            ]
            return losses, np.array(fluid.global_scope().find_var("table").get_tensor())


def sparse(program: Program) -> list[bool]:
    """Of each gradient of a lookup, whether it is sparse."""
    ops = [op for op in program.global_block().ops if op.type == "lookup_table_v2_grad"]
    for op in ops:
        var = op.block.var(op.output("W@GRAD")[0])
        assert (var.type == VarType.SELECTED_ROWS) == op.attrs["is_sparse"]
    return [bool(op.attrs["is_sparse"]) for op in ops]


@pytest.mark.parametrize(
    ("tied", "lookups", "padding", "expected"),
    [
        (True, 1, None, [True]),
        (True, 2, 3, [True, True]),
        (False, 2, None, [False, True]),
        (False, 1, None, [False]),
    ],
)
def test_terms_stay_rows(
    tied: bool, lookups: int, padding: int | None, expected: list[bool]
) -> None:
    model = Model(tied=tied, lookups=lookups, padding=padding)
    program = model.main.clone()
    report = add_table_rows(program, Options())
    assert sorted(sparse(program)) == sorted(expected)
    assert len(report.made) == sum(expected)
    losses, table = model.run(program)
    with flags.override({"FLAGS_check_nan_inf": True}):  # operators as they are written
        expected_losses, expected_table = model.run(model.main)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-6)
    np.testing.assert_allclose(table, expected_table, rtol=1e-5, atol=1e-7)


def test_a_gradient_that_is_fetched_stays_dense() -> None:
    model = Model(tied=True)
    name = next(
        op.output("W@GRAD")[0]
        for op in model.main.global_block().ops
        if op.type == "lookup_table_v2_grad"
    )
    program = model.main.clone()
    assert add_table_rows(program, Options(frozenset({name}))).made == []
    assert sparse(program) == [False]
    executor = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        executor.run(model.startup)
        (found,) = executor.run(model.main, feed=model.feed, fetch_list=[name])
    assert found.shape == (WORDS, WIDTH)
    assert found.any()
