"""Loops over time steps that attend to what all steps share, with cells chosen at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.engine import pipeline
from refluid.runtime.recorded.trial import compiling_at_once
from tests.passes.rewriting import passed

NAME = "batch_time_steps"
layers = fluid.layers


class Cell:
    """A step that is drawn: values [batch, n] made of others, attended memory, shared weights."""

    def __init__(self, draws: np.random.Generator, width: int, *shared: Any) -> None:
        self.draws, self.width = draws, width
        self.memory, self.values, self.question = shared
        self.joined: list[Any] = []

    def attended(self, value: Any) -> Any:
        """By rows, or the memory first, by columns; whatever is transposed."""
        memory, (m, n) = self.memory, self.memory.shape[1:]
        asked, scale = self.linear([value]), float(self.draws.choice([1.0, 0.5]))
        if self.draws.random() < 0.2:
            seen = layers.tanh(memory + layers.unsqueeze(asked, [1]))
            row = layers.unsqueeze(layers.softmax(layers.reduce_sum(seen, 2)), [1])
            return layers.squeeze(layers.matmul(row, memory), [1])
        if self.draws.random() < 0.5:
            row = layers.unsqueeze(asked, [1])
            if self.draws.random() < 0.2:
                row = self.question  # the same in all steps
            if self.draws.random() < 0.3:
                row = layers.reshape(row, [-1, self.width, 1])
                scores = layers.matmul(row, memory, True, True, alpha=scale)
            else:
                scores = layers.matmul(row, memory, transpose_y=True, alpha=scale)
            scores = layers.softmax(scores)
            found = layers.matmul(scores, memory)
            if self.draws.random() < 0.3:
                found += layers.matmul(scores, self.values, alpha=scale)
            return layers.squeeze(found, [1])
        column = layers.unsqueeze(asked, [2])
        weights = layers.softmax(layers.matmul(memory, column, alpha=scale), axis=1)
        if self.draws.random() < 0.5:
            return layers.reshape(layers.matmul(memory, weights, transpose_x=True), [-1, n])
        row = layers.reshape(weights, [-1, 1, m])
        return layers.reshape(layers.matmul(memory, row, True, True), [-1, n])

    def linear(self, values: list[Any]) -> Any:
        """Of values joined one within the other; some weights are used before and after."""
        joined = values[0]
        for one in values[1:]:
            pair = [joined, one] if self.draws.random() < 0.6 else [one, joined]
            joined = layers.concat(pair, axis=1)
            if self.joined and self.draws.random() < 0.3:
                other = self.joined[self.draws.integers(len(self.joined))]
                joined = layers.concat([other, joined, joined][: self.draws.integers(2, 4)], axis=1)
            self.joined.append(joined)
        name = f"w{joined.shape[1]}" if self.draws.random() < 0.3 else None
        bias = None if self.draws.random() < 0.6 else False
        return layers.fc(joined, self.width, param_attr=name, bias_attr=bias, act="tanh")

    def value(self, known: list[Any]) -> Any:
        one, other = (known[self.draws.integers(len(known))] for _ in range(2))
        kind = self.draws.integers(5)
        if kind < 2:
            return self.linear([known[n] for n in self.draws.permutation(len(known))[:3]])
        if kind < 4:
            return self.attended(one)
        return one + other if self.draws.random() < 0.5 else one * other


def build(seed: int) -> tuple[Any, Any, dict[str, Any], list[str]]:
    """Main and startup program, the feed, and what is fetched: the loss and all gradients."""
    draws = np.random.default_rng(seed)
    steps, batch, width, places = (int(draws.integers(1, top)) for top in (6, 5, 5, 6))
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        known = draws.random() < 0.7
        x = fluid.data("x", [steps, batch if known else None, width])
        memory = fluid.data("memory", [batch if known else None, places, width])
        question = fluid.data("question", [batch if known else None, 1, width])
        values = fluid.data("values", memory.shape)
        shared = memory, values, question
        for one in (x, *shared):
            one.stop_gradient = False
        rnn, cell = layers.StaticRNN(), Cell(draws, width, *shared)
        with rnn.step():
            now = rnn.step_input(x)
            states = [
                rnn.memory(shape=[-1, width], batch_ref=now) for _ in range(draws.integers(1, 3))
            ]
            values = [now, *states]
            for _ in range(draws.integers(2, 5)):
                values.append(cell.value(values))
            made = values[1 + len(states) :]
            for state in states:
                rnn.update_memory(state, made[int(draws.integers(len(made)))])
            rnn.step_output(cell.linear(values[-3:]))
        out = rnn()
        loss = layers.mean(out * out)
        if draws.random() < 0.8:
            fluid.backward.append_backward(loss)
        names = [parameter.name for parameter in main.all_parameters()]
    block = main.global_block()
    fetches = [loss.name] + [
        f"{name}@GRAD"
        for name in ("x", "memory", "values", "question", *names)
        if block.has_var(f"{name}@GRAD")
    ]
    feed = {
        "x": draws.standard_normal((steps, batch, width), "float32"),
        "memory": draws.standard_normal((batch, places, width), "float32"),
        "values": draws.standard_normal((batch, places, width), "float32"),
        "question": draws.standard_normal((batch, 1, width), "float32"),
    }
    return main, startup, feed, fetches


def results(seed: int) -> dict[str, Any]:
    main, startup, feed, fetches = build(seed)
    exe, scope = fluid.Executor(), fluid.Scope()
    exe.run(startup, scope=scope)
    for _ in range(3):  # the last of which is recorded
        found = exe.run(main, feed, fetches, scope=scope)
    return dict(zip(fetches, found, strict=True))


@pytest.mark.parametrize("seed", range(120))
def test_any_cell(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batched = results(seed)
    others = tuple(one for one in pipeline.FUSING if one.name != NAME)
    monkeypatch.setattr(pipeline, "FUSING", others)
    for name, wanted in results(seed).items():
        np.testing.assert_allclose(batched[name], wanted, 1e-4, 1e-6, err_msg=name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("seed", [1038, 1046, 1054])
def test_compiled_cells(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Of these TorchInductor wrote results over parts of what `cat` made, and others over these."""
    wanted = results(seed)
    with flags.override({"FLAGS_refluid_tier": "compiled"}), compiling_at_once():
        found = results(seed)
    for name, one in wanted.items():
        np.testing.assert_allclose(found[name], one, 1e-4, 1e-6, err_msg=name)
    assert not [one for one in caplog.records if one.levelname == "WARNING"]


class Attending(layers.RNNCell):  # type: ignore[misc]
    """An LSTM's step, which is given what the step before attended to."""

    def __init__(self, memory: Any, width: int) -> None:
        self.memory, self.width = memory, width
        self.lstm = layers.LSTMCell(width)

    def call(self, inputs: Any, states: Any) -> Any:
        hidden, cell, before = states
        out, (hidden, cell) = self.lstm(layers.concat([inputs, before], 1), [hidden, cell])
        weights = layers.matmul(layers.unsqueeze(out, [1]), self.memory, transpose_y=True)
        context = layers.squeeze(layers.matmul(layers.softmax(weights), self.memory), [1])
        after = layers.fc(layers.concat([context, out], 1), self.width, act="tanh")
        return after, [hidden, cell, after]


def attending() -> Any:
    """The program after the pass."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, memory = fluid.data("x", [4, 6, 8]), fluid.data("memory", [4, 5, 8])
        memory.stop_gradient = False
        start = [layers.fill_constant([4, 8], "float32", 0.0) for _ in range(3)]
        found, _ = layers.rnn(Attending(memory, 8), x, initial_states=start)
        loss = layers.mean(found)
        fluid.backward.append_backward(loss)
        kept = [loss.name, "memory@GRAD"]
        return passed(fluid.default_main_program(), NAME, kept=kept).program


def test_the_gradient_of_what_is_attended_to_leaves_the_loop() -> None:
    blocks = attending().blocks
    inside = [op for op in blocks[2].ops if op.type == "matmul_grad"]
    outside = [op for op in blocks[0].ops if op.type == "matmul_grad"]
    assert [op.output("Y@GRAD") for op in inside] == [["@EMPTY@"]] * 2
    assert [op.output("X@GRAD") for op in outside] == [[]] * 2
    assert outside[0].output("Y@GRAD") != outside[1].output("Y@GRAD")


def test_what_is_joined_within_what_is_joined_is_split_and_its_states_stay_joined() -> None:
    blocks = attending().blocks
    (joined, _) = [op for op in blocks[1].ops if op.type == "concat"]
    assert len(joined.input("X")) == 2
    assert [op.type for op in blocks[0].ops].count("mul") == 1
    assert [op.type for op in blocks[1].ops].count("mul") == 2
