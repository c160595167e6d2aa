"""Loops over time steps, recorded as the kernels of all steps: bit for bit what the loops give."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.runtime.recorded import tiers, unrolled
from refluid.runtime.recorded.graph import Kernel, Line
from refluid.runtime.steps import Compound, For, While

layers = fluid.layers
FLAG = "FLAGS_refluid_unrolled_loops"
WIDTH = 4

# From values (batch, WIDTH), the first of which is the step's input, and a source of choices: the
# next value.
PIECES: dict[str, Callable[[Sequence[Any], random.Random], Any]] = {
    "fc": lambda found, source: layers.fc(
        source.sample(found, 2), WIDTH, act=source.choice(["tanh", "relu", None])
    ),
    "product": lambda found, source: layers.mul(found[-1], _weight()),
    "turned": lambda found, source: layers.matmul(found[-1], _weight(), transpose_y=True),
    "sum": lambda found, source: layers.elementwise_add(*source.sample(found, 2)),
    "gate": lambda found, source: layers.elementwise_mul(
        layers.sigmoid(found[-1]), source.choice(found)
    ),
    "mean": lambda found, source: layers.elementwise_sub(
        found[-1], layers.reduce_mean(found[-1], dim=1, keep_dim=True)
    ),
    "parts": lambda found, source: layers.concat(
        layers.split(found[-1], 2, dim=1)[:: source.choice([1, -1])], axis=1
    ),
    "norm": lambda found, source: layers.layer_norm(found[-1]),
    "soft": lambda found, source: layers.softmax(found[-1]),
    "scale": lambda found, source: layers.scale(found[-1], 0.5, bias=0.1),
    "prelu": lambda found, source: layers.prelu(found[-1], "all"),
    "cut": lambda found, source: layers.dropout(
        found[-1], 0.5, seed=3, dropout_implementation="upscale_in_train"
    ),
}
PLAIN = [name for name in PIECES if name != "cut"]


def _weight() -> Any:
    return layers.create_parameter([WIDTH, WIDTH], "float32")


def recurrent(rows: Any, source: random.Random, pieces: Sequence[str]) -> list[Any]:
    """A StaticRNN of random pieces; what it gives, each (time, batch, WIDTH)."""
    rnn, start = layers.StaticRNN(), layers.reduce_mean(rows, dim=0)
    with rnn.step():
        row = rnn.step_input(rows)
        if source.random() < 0.5:
            memory = rnn.memory(shape=[-1, WIDTH], batch_ref=row)
        else:
            memory = rnn.memory(init=start)
        found = [row, memory]
        for name in source.choices(pieces, k=source.randint(1, 5)):
            found.append(PIECES[name](found, source))
        rnn.update_memory(memory, found[-1] if source.random() < 0.8 else memory)
        for one in [found[-1], *source.sample(found, source.randint(0, 2))]:
            rnn.step_output(one)
    given = rnn()
    return list(given) if isinstance(given, list | tuple) else [given]


class Model:
    """Random recurrent networks one after the other, trained from the same start."""

    def __init__(self, seed: int, pieces: Sequence[str] = PLAIN) -> None:
        source = random.Random(seed)
        self.main, startup = fluid.Program(), fluid.Program()
        self.main.random_seed = startup.random_seed = 7
        with fluid.unique_name.guard(), fluid.program_guard(self.main, startup):
            rows = fluid.data("rows", [None, None, WIDTH])
            rows.stop_gradient = source.random() < 0.5
            found = [rows]
            for _ in range(source.randint(1, 3)):
                found += recurrent(found[-1], source, pieces)
            self.loss = layers.mean(sum(layers.reduce_mean(one) for one in found[1:]))
            fluid.optimizer.SGD(0.1).minimize(self.loss)
            self.fetched = [self.loss, *source.sample(found[1:], 1)]
        self.scope, self.executor = fluid.Scope(), fluid.Executor()
        self.executor.run(startup, scope=self.scope)

    def step(self, rows: Any) -> list[bytes]:
        """What one step of training gives."""
        given = self.executor.run(self.main, {"rows": rows}, self.fetched, scope=self.scope)
        return [one.tobytes() for one in given]

    def state(self) -> list[bytes]:
        """All parameters."""
        names = [one.name for one in self.main.all_parameters()]
        return [np.asarray(self.scope.find_var(name).get_tensor()).tobytes() for name in names]


def _rows(time: int, batch: int, seed: int) -> Any:
    return np.random.RandomState(seed).randn(time, batch, WIDTH).astype("float32")


def trained(seed: int, unrolls: bool, tier: str, pieces: Sequence[str] = PLAIN) -> Any:
    """What some steps of three sizes give, and what they leave."""
    source = random.Random(seed)
    sizes = [(source.randint(1, 7), source.randint(1, 4)) for _ in range(3)]
    with flags.override({FLAG: unrolls, "FLAGS_refluid_tier": tier}):
        model = Model(seed, pieces)
        steps = [model.step(_rows(*source.choice(sizes), number)) for number in range(9)]
        return steps, model.state()


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """The parts of each recording that steps were made of."""
    found: list[list[Any]] = []
    write = tiers._write

    def noted(steps: Any, *given: Any, **named: Any) -> Any:
        found.append(list(steps))
        return write(steps, *given, **named)

    monkeypatch.setattr(tiers, "_write", noted)
    return found


def loops(parts: Sequence[Any]) -> list[Any]:
    return [one for one in parts if isinstance(one, Line) and isinstance(one.step, Compound)]


@pytest.mark.parametrize("seed", range(24))
def test_every_bit_is_the_same(seed: int, written: list[list[Any]]) -> None:
    plain = trained(seed, False, "interpreted")
    assert not written
    assert trained(seed, True, "recorded") == plain
    assert written
    assert not any(map(loops, written))
    written.clear()
    assert trained(seed, False, "recorded") == plain
    assert any(map(loops, written))


@pytest.mark.parametrize("seed", range(6))
def test_what_draws_stays_a_loop(seed: int, written: list[list[Any]]) -> None:
    pieces = ["cut", "fc"]
    plain = trained(seed, False, "interpreted", pieces)
    assert trained(seed, True, "recorded", pieces) == plain


def test_very_many_kernels_stay_a_loop(
    written: list[list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = trained(3, False, "interpreted")
    monkeypatch.setattr(unrolled, "MOST", 20)
    assert trained(3, True, "recorded") == plain
    assert any(map(loops, written))


def test_kernels_belong_to_operators_of_the_body(written: list[list[Any]]) -> None:
    trained(5, True, "recorded")
    kernels = [one for one in written[-1] if isinstance(one, Kernel)]
    inside = {one.op.type for one in kernels if one.op and one.op.block.idx > 0}
    assert {"mul", "mul_grad"} <= inside or {"matmul", "matmul_grad"} <= inside or len(inside) > 3
    assert all(one.op is None or one.op.type for one in kernels)


class Words:
    """A StaticRNN that looks words up in a table."""

    def __init__(self, *, is_sparse: bool = False) -> None:
        self.main, startup = fluid.Program(), fluid.Program()
        self.main.random_seed = startup.random_seed = 7
        with fluid.unique_name.guard(), fluid.program_guard(self.main, startup):
            ids = fluid.data("ids", [None, 2, 1], "int64")
            rnn, start = layers.StaticRNN(), layers.zeros([2, WIDTH], "float32")
            with rnn.step():
                word = layers.embedding(rnn.step_input(ids), [10, WIDTH], is_sparse=is_sparse)
                memory = rnn.memory(init=start)
                rnn.update_memory(memory, layers.tanh(layers.elementwise_add(word, memory)))
                rnn.step_output(memory)
            self.loss = layers.reduce_mean(rnn())
            fluid.optimizer.SGD(0.1).minimize(self.loss)
        self.scope, self.executor = fluid.Scope(), fluid.Executor()
        self.executor.run(startup, scope=self.scope)

    def step(self, ids: Any) -> bytes:
        (loss,) = self.executor.run(self.main, {"ids": ids}, [self.loss], scope=self.scope)
        return bytes(loss.tobytes())


def test_a_table_without_the_row_is_named() -> None:
    good = np.arange(6).reshape(3, 2, 1)
    with flags.override({"FLAGS_refluid_tier": "recorded"}):
        model = Words()
        for _ in range(3):
            model.step(good)
        with pytest.raises(EnforceNotMet, match="lookup_table"):
            model.step(good + 8)


def test_rows_of_a_table_are_added_up_over_steps() -> None:
    found = []
    for unrolls, tier in ((False, "interpreted"), (True, "recorded")):
        with flags.override({FLAG: unrolls, "FLAGS_refluid_tier": tier}):
            model, draws = Words(is_sparse=True), np.random.RandomState(5)
            found.append([model.step(draws.randint(0, 10, (4, 2, 1))) for _ in range(6)])
    assert found[0] == found[1]


def test_a_line_that_reads_what_a_loop_keeps(
    written: list[list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one loop can't be unrolled, those that share its lists stay loops, too."""
    plain = trained(9, False, "interpreted")
    asked = unrolled.Loops.unrolls

    def but_gradients(loops: unrolled.Loops, step: Any) -> bool:
        is_gradient = step.op is not None and step.op.type == "recurrent_grad"
        return asked(loops, step) and not (is_gradient and isinstance(step, Compound))

    monkeypatch.setattr(unrolled.Loops, "unrolls", but_gradients)
    assert trained(9, True, "recorded") == plain
    kinds = [{type(line.step) for line in loops(parts)} for parts in written]
    assert any(kinds)
    assert all(not one or one == {For, While} for one in kinds)
