"""Gradients of weights that loops add up: those of all rounds' rows, at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.runtime import row_sums
from tests.fluid.once import own_programs

layers = fluid.layers
FLAG = "FLAGS_refluid_loop_row_sums"
WIDTH, WORDS = 6, 9
SEEDS = 40


def _weight(*shape: int) -> Any:
    return layers.create_parameter([*shape] or [WIDTH, WIDTH], "float32")


def _twice(found: Sequence[Any], source: random.Random) -> Any:
    """One weight, by two operators of a round."""
    weight = _weight()
    return layers.mul(layers.tanh(layers.mul(found[-1], weight)), weight)


def _changed(found: Sequence[Any], source: random.Random) -> Any:
    """A product of what is overwritten afterwards."""
    value = layers.scale(found[-1], 1.0)
    product = layers.mul(value, _weight())
    layers.assign(layers.scale(product, 0.5), value)
    return layers.elementwise_add(product, value)


def _looked_up(found: Sequence[Any], source: random.Random) -> Any:
    sums = layers.reduce_sum(found[-1], dim=1, keep_dim=True)
    ids = layers.cast(layers.clip(layers.abs(sums), 0.0, WORDS - 1.0), "int64")
    ids.stop_gradient = True
    rows = layers.embedding(ids, [WORDS, WIDTH], is_sparse=source.random() < 0.4)
    return layers.elementwise_add(found[-1], layers.reshape(rows, [-1, WIDTH]))


def _larger(found: Sequence[Any], source: random.Random) -> Any:
    """Products of weights with fewer numbers than rows have, and with more."""
    inner = source.choice([1, 40])
    return layers.mul(layers.mul(found[-1], _weight(WIDTH, inner)), _weight(inner, WIDTH))


PIECES: dict[str, Callable[[Sequence[Any], random.Random], Any]] = {
    "fc": lambda found, source: layers.fc(
        source.sample(found, 2), WIDTH, act=source.choice(["tanh", "relu", None])
    ),
    "product": lambda found, source: layers.mul(found[-1], _weight()),
    "matmul": lambda found, source: layers.matmul(
        found[-1], _weight(), transpose_y=source.random() < 0.5, alpha=source.choice([1.0, 0.5])
    ),
    "twice": _twice,
    "changed": _changed,
    "looked_up": _looked_up,
    "larger": _larger,
    "sum": lambda found, source: layers.elementwise_add(*source.sample(found, 2)),
    "gate": lambda found, source: layers.elementwise_mul(
        layers.sigmoid(found[-1]), source.choice(found)
    ),
}


class Model:
    """A DynamicRNN of random pieces, trained on sequences of random lengths."""

    def __init__(self, seed: int) -> None:
        source = random.Random(seed)
        self.main, startup = fluid.Program(), fluid.Program()
        self.main.random_seed = startup.random_seed = 7
        with fluid.unique_name.guard(), fluid.program_guard(self.main, startup):
            rows = fluid.data("rows", [None, WIDTH], lod_level=1)
            rows.stop_gradient = source.random() < 0.5
            rnn = layers.DynamicRNN()
            with rnn.block():
                row = rnn.step_input(rows)
                memory = rnn.memory(shape=[WIDTH], value=0.1)
                found = [row, memory]
                for name in source.choices(list(PIECES), k=source.randint(1, 5)):
                    found.append(PIECES[name](found, source))
                state = layers.tanh(layers.elementwise_add(found[-1], memory))
                rnn.update_memory(memory, state)
                rnn.output(state)
            self.loss = layers.mean(layers.sequence_pool(rnn(), source.choice(["last", "sum"])))
            fluid.optimizer.SGD(0.1).minimize(self.loss)
        self.scope, self.executor = fluid.Scope(), fluid.Executor()
        self.executor.run(startup, scope=self.scope)

    def step(self, lengths: Sequence[int]) -> Any:
        """The loss of one step."""
        values = np.random.RandomState(sum(lengths)).randn(sum(lengths), WIDTH)
        given = fluid.create_lod_tensor(values.astype("float32"), [lengths], fluid.CPUPlace())
        (found,) = self.executor.run(self.main, {"rows": given}, [self.loss], scope=self.scope)
        return found

    def state(self) -> list[Any]:
        """All parameters."""
        names = [one.name for one in self.main.all_parameters()]
        return [np.array(self.scope.find_var(name).get_tensor()) for name in names]


def trained(seed: int, waits: bool) -> tuple[list[Any], list[Any]]:
    """Losses of some steps, and what they leave."""
    source = random.Random(seed)
    with own_programs(), flags.override({FLAG: waits}):
        model = Model(seed)
        batches = [source.choices(range(1, 7), k=source.randint(1, 8)) for _ in range(4)]
        return [model.step(one) for one in batches], model.state()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_gradients_are_the_same(seed: int) -> None:
    plain, waiting = trained(seed, False), trained(seed, True)
    for one, other in zip(plain, waiting, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)  # of four steps


def _bits(seed: int, counted: bool) -> list[bytes]:
    with flags.override({"FLAGS_refluid_counted_loops": counted}):
        losses, state = trained(seed, True)
    return [one.tobytes() for one in (*losses, *state)]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_memories_are_cut_by_the_loops_number(seed: int) -> None:
    """A number that the loop counts in Python, or a tensor: every bit is the same."""
    assert _bits(seed, True) == _bits(seed, False)


def test_most_wait_and_all_ways_are_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of weights that a round uses twice, or whose rows change, don't wait."""
    joined, at_once = [0], [0]
    join, one_by_one = row_sums.RowSum._join, row_sums.Accumulator.add

    def count_joined(self: Any) -> None:
        joined[0] += len(self._waiting)
        join(self)

    def count_added(self: Any, value: Any) -> None:
        at_once[0] += 1
        one_by_one(self, value)

    monkeypatch.setattr(row_sums.RowSum, "_join", count_joined)
    monkeypatch.setattr(row_sums.Accumulator, "add", count_added)
    for seed in range(SEEDS):
        trained(seed, True)
    assert joined[0] > 400
    assert at_once[0] > 400
    joined[0] = 0
    trained(0, False)
    assert not joined[0]


@pytest.mark.parametrize("rows", [3, 5])
def test_rows_that_differ_in_width_are_joined_apart(rows: int) -> None:
    """Rounds of several widths: those before are computed first."""
    calls: list[tuple[int, ...]] = []

    def compute(x: Any, _weight: Any, slope: Any) -> Any:
        calls.append(tuple(x.shape))
        return x.sum() * slope.sum()

    import torch

    total = row_sums.RowSum(compute, (True, False, True))
    weight = torch.zeros(100, 100)
    for width in (2, 2, 4, 2):
        total.append((torch.ones(rows, width), weight, torch.ones(rows, 1), weight))
    found = total.result(weight)
    assert calls == [(2 * rows, 2), (rows, 4), (rows, 2)]
    assert float(found) == 2 * rows * 2 * 2 * rows + rows * 4 * rows + rows * 2 * rows
    assert row_sums.RowSum(compute, (True,)).result(weight).shape == weight.shape
