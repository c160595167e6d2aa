"""Loops: what a round of `while` costs, and recurrent networks written with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

import refluid.fluid as fluid
from benchmarks.operator_cases.case import Case, Random, draw, normal
from benchmarks.operator_cases.sequences import Rows, padded, present, rows

ROUNDS, STEPS, BATCH, WORDS, HIDDEN = 200, 40, 32, 64, 128


def _repeated(given: Mapping[str, Any]) -> Any:
    layers = fluid.layers
    place = layers.fill_constant([1], "int64", 0)
    count = layers.fill_constant([1], "int64", ROUNDS)
    value = layers.scale(given["X"], 1.0)
    condition = layers.less_than(place, count)
    loop = layers.While(condition)
    with loop.block():
        layers.assign(layers.tanh(layers.elementwise_add(value, given["Y"])), value)
        layers.increment(place, 1, in_place=True)
        layers.less_than(place, count, cond=condition)
    return value


def _torch_repeated(x: Tensor, y: Tensor) -> Tensor:
    for _ in range(ROUNDS):
        x = torch.tanh(x + y)
    return x


def _weights(random: Random) -> dict[str, Any]:
    return {
        "W": normal(random, WORDS, 4 * HIDDEN) * 0.1,
        "U": normal(random, HIDDEN, 4 * HIDDEN) * 0.1,
        "B": normal(random, 4 * HIDDEN) * 0.1,
    }


def _steps(random: Random) -> Mapping[str, Any]:
    return {"X": normal(random, STEPS, BATCH, WORDS), **_weights(random)}


def _sentences(random: Random) -> Mapping[str, Any]:
    return {"X": rows(random, WORDS, BATCH), **_weights(random)}


def _cell(x: Any, hidden: Any, cell: Any, given: Mapping[str, Any]) -> tuple[Any, Any]:
    """One step of an LSTM made of small operators."""
    layers = fluid.layers
    gates = layers.elementwise_add(layers.mul(x, given["W"]), layers.mul(hidden, given["U"]))
    gates = layers.elementwise_add(gates, given["B"], axis=1)
    enter, forget, leave, candidate = layers.split(gates, 4, dim=1)
    kept = layers.elementwise_mul(cell, layers.sigmoid(forget))
    new = layers.elementwise_mul(layers.sigmoid(enter), layers.tanh(candidate))
    cell = layers.elementwise_add(kept, new)
    return layers.elementwise_mul(layers.sigmoid(leave), layers.tanh(cell)), cell


def _static(given: Mapping[str, Any]) -> Any:
    rnn = fluid.layers.StaticRNN()
    with rnn.step():
        x = rnn.step_input(given["X"])
        state = [rnn.memory(shape=[-1, HIDDEN], batch_ref=x) for _ in "hc"]
        hidden, cell = _cell(x, *state, given)
        rnn.update_memory(state[0], hidden)
        rnn.update_memory(state[1], cell)
        rnn.step_output(hidden)
    return rnn()


def _dynamic(given: Mapping[str, Any]) -> Any:
    rnn = fluid.layers.DynamicRNN()
    with rnn.block():
        x = rnn.step_input(given["X"])
        state = [rnn.memory(shape=[HIDDEN], value=0.0) for _ in "hc"]
        hidden, cell = _cell(x, *state, given)
        rnn.update_memory(state[0], hidden)
        rnn.update_memory(state[1], cell)
        rnn.output(hidden)
    return rnn()


def _torch_cell(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    enter, forget, leave, candidate = gates.chunk(4, 1)
    cell = cell * torch.sigmoid(forget) + torch.sigmoid(enter) * torch.tanh(candidate)
    return torch.sigmoid(leave) * torch.tanh(cell), cell


def _torch_steps(x: Tensor, w: Tensor, u: Tensor, b: Tensor) -> Tensor:
    hidden = cell = x.new_zeros(x.shape[1], HIDDEN)
    made = []
    for one in x.unbind(0):
        hidden, cell = _torch_cell(torch.mm(one, w) + torch.mm(hidden, u) + b, cell)
        made.append(hidden)
    return torch.stack(made)


def _torch_sentences(x: Rows, w: Tensor, u: Tensor, b: Tensor) -> Tensor:
    made = _torch_steps(padded(x).transpose(0, 1), w, u, b)
    return made.transpose(0, 1)[present(x)]


CASES = (
    Case(
        "while, 200 rounds of 8 numbers",
        draw(X=(8,), Y=(8,)),
        _repeated,
        _torch_repeated,
        reason="0.3 µs a round for comparing shapes, so that sums broadcast as Fluid's do",
    ),
    Case(
        "while, 200 rounds of 64 x 512", draw(X=(64, 512), Y=(64, 512)), _repeated, _torch_repeated
    ),
    Case(
        "StaticRNN, an LSTM", _steps, _static, _torch_steps, ("X", "W", "U", "B"), ("W", "U", "B")
    ),
    Case(
        "DynamicRNN, an LSTM",
        _sentences,
        _dynamic,
        _torch_sentences,
        ("X", "W", "U", "B"),
        ("W", "U", "B"),
    ),
)
