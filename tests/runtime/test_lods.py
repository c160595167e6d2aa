"""Which sequences (LoD) results and gradients have, as Fluid 1.8.5 recorded them.

Where no recording says anything, as paddle 2.6.2 has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensor

layers = fluid.layers
Lengths = list[list[int]]
# What is given and its rows' shape, the network, sequences of its result and of the gradients.
Case = tuple[dict[str, tuple[Lengths, tuple[int, ...]]], Callable[..., Any], Lengths, list[Lengths]]

TWO, OTHER = [[2, 3]], [[3, 1]]
CASES: dict[str, Case] = {
    "concat of rows": (
        {"x": (TWO, (4,)), "y": (OTHER, (4,))},
        lambda x, y: layers.concat([x, y], 0),
        [[2, 3, 3, 1]],
        [TWO, OTHER],
    ),
    "concat of rows, axis from behind": (
        {"x": (TWO, (4,)), "y": (OTHER, (4,))},
        lambda x, y: layers.concat([x, y], -2),
        [[2, 3, 3, 1]],
        [TWO, OTHER],
    ),
    "concat of two levels": (
        {"x": ([[1, 1], [1, 2]], (2,)), "y": ([[2], [1, 1]], (2,))},
        lambda x, y: layers.concat([x, y], 0),
        [[1, 1, 2], [1, 2, 1, 1]],
        [[[1, 1], [1, 2]], [[2], [1, 1]]],
    ),
    "concat of columns": (
        {"x": (TWO, (4,)), "y": (TWO, (1,))},
        lambda x, y: layers.concat([x, y], 1),
        TWO,
        [TWO, TWO],
    ),
    "reshape to other rows": ({"x": (TWO, (4,))}, lambda x: layers.reshape(x, [-1, 2]), [], [TWO]),
    "reshape of rows": ({"x": (TWO, (4,))}, lambda x: layers.reshape(x, [-1, 2, 2]), TWO, [TWO]),
    "unsqueeze in front": ({"x": (TWO, (4,))}, lambda x: layers.unsqueeze(x, [0]), [], [TWO]),
    "unsqueeze behind": ({"x": (TWO, (4,))}, lambda x: layers.unsqueeze(x, [2]), TWO, [TWO]),
    "flatten": ({"x": (TWO, (4, 2))}, lambda x: layers.flatten(x, 2), [], [TWO]),
    "slice of rows": ({"x": (TWO, (4,))}, lambda x: layers.slice(x, [0], [0], [2]), [], [[]]),
    "slice of columns": ({"x": (TWO, (4,))}, lambda x: layers.slice(x, [1], [0], [2]), TWO, [[]]),
    "pad of rows": ({"x": (TWO, (4,))}, lambda x: layers.pad(x, [0, 1, 0, 0]), [], [[]]),
    "pad of columns": ({"x": (TWO, (4,))}, lambda x: layers.pad(x, [0, 0, 0, 1]), TWO, [[]]),
    "expand of rows": ({"x": (TWO, (4,))}, lambda x: layers.expand(x, [2, 1]), [], [[]]),
    "softmax": ({"x": (TWO, (4,))}, layers.softmax, TWO, [[]]),
    "relu": ({"x": (TWO, (4,))}, layers.relu, TWO, [TWO]),
    "relu before softmax": (
        {"x": (TWO, (4,))},
        lambda x: layers.softmax(layers.relu(x)),
        TWO,
        [[]],
    ),
    "fc": ({"x": (TWO, (4,))}, lambda x: layers.fc(x, 3), TWO, [TWO]),
    "matmul": ({"x": (TWO, (4,))}, lambda x: layers.matmul(x, x, transpose_y=True), TWO, [[]]),
    "cos_sim": (
        {"x": (TWO, (4,)), "y": (TWO, (4,))},
        layers.cos_sim,
        TWO,
        [[], []],
    ),
    "add_position_encoding": (
        {"x": (TWO, (4,))},
        lambda x: layers.add_position_encoding(x, 0.5, 0.3),
        TWO,
        [[]],
    ),
    "row_conv": ({"x": (TWO, (4,))}, lambda x: layers.row_conv(x, 1), TWO, [[]]),
    "dynamic_gru": ({"x": (TWO, (6,))}, lambda x: layers.dynamic_gru(x, 2), TWO, [[]]),
    "sequence_pool": ({"x": (TWO, (4,))}, lambda x: layers.sequence_pool(x, "sum"), [], [TWO]),
}


def _fed(lengths: Lengths, row: tuple[int, ...], seed: int) -> LoDTensor:
    tensor = LoDTensor()
    shape = sum(lengths[-1]), *row
    values = np.random.RandomState(seed).uniform(0.1, 1, shape).astype("float32")
    tensor.set(values, fluid.CPUPlace())
    tensor.set_recursive_sequence_lengths(lengths)
    return tensor


@pytest.mark.parametrize("name", CASES)
def test_sequences_of_results_and_gradients(name: str) -> None:
    given, network, wanted, wanted_gradients = CASES[name]
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        inputs = {
            one: fluid.data(one, [None, *row], "float32", lod_level=len(lengths))
            for one, (lengths, row) in given.items()
        }
        for var in inputs.values():
            var.stop_gradient = False
        out = network(*inputs.values())
        grads = fluid.gradients([layers.mean(layers.square(out))], list(inputs.values()))
    feed = {one: _fed(*value, seed=seed) for seed, (one, value) in enumerate(given.items())}
    executor = fluid.Executor()
    with fluid.scope_guard(fluid.core.Scope()):
        executor.run(startup)
        found = executor.run(main, feed, [out, *grads], return_numpy=False)
    assert [one.recursive_sequence_lengths() for one in found] == [wanted, *wanted_gradients]


def test_a_program_without_sequences_notes_none() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [None, 4], "float32")
        out = layers.concat([layers.reshape(x, [-1, 2]), layers.reshape(x, [-1, 2])], 0)
    executor = fluid.Executor()
    executor.run(main, {"x": np.zeros((2, 4), "float32")}, [out])
    plans = next(iter(executor._group.cache.values())).steps
    assert "joined" not in plans[frozenset()].text
    assert "while_rows_stay" not in plans[frozenset()].text


def test_sequences_of_other_levels_are_not_joined() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [None, 2], "float32", lod_level=2)
        y = fluid.data("y", [None, 2], "float32", lod_level=1)
        out = layers.concat([x, y], 0)
    feed = {"x": _fed([[1, 1], [1, 2]], (2,), 0), "y": _fed([[1, 1]], (2,), 1)}
    with pytest.raises(EnforceNotMet, match=r"concat.*LoD of \[2, 1\] levels can't be joined"):
        fluid.Executor().run(main, feed, [out])


@pytest.mark.parametrize("lengths, rows", [([[2, 3]], 2), ([[2, 1], [1, 2, 2]], 3)])
def test_batches_of_sequences_are_as_large_as_there_are_sequences(
    lengths: Lengths, rows: int
) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [None, 2], "float32", lod_level=len(lengths))
        constant = layers.fill_constant_batch_size_like(x, [-1, 3], "float32", 1.0)
        columns = layers.fill_constant_batch_size_like(x, [-1, 3], "float32", 1.0, 1)
        drawn = layers.uniform_random_batch_size_like(x, [-1, 3])
    feed = {"x": _fed(lengths, (2,), 0)}
    found = fluid.Executor().run(main, feed, [constant, columns, drawn])
    assert [one.shape for one in found] == [(rows, 3), (2, 3), (5, 3)]


def test_declared_levels_follow_declared_rows() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [None, 4], "float32", lod_level=1)
        assert layers.reshape(x, [-1, 2]).lod_level == 1
        assert layers.unsqueeze(x, [0]).lod_level == 0
        assert layers.slice(x, [0], [0], [2]).lod_level == 0
        assert layers.slice(x, [1], [0], [2]).lod_level == 1
        dropped = layers.dropout(x, 0.5)
        (op,) = [one for one in dropped.block.ops if one.type == "dropout"]
        assert dropped.lod_level == 1
        assert dropped.block.var(op.output("Mask")[0]).lod_level == 0
