"""The planned peak of networks with loops is near the measured one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.fluid.contrib.memory_report import memory_report
from refluid.ops.rnn import gate_activations
from refluid.runtime.footprint import planned_peak
from refluid.runtime.memory import Memory
from refluid.runtime.request import Request

layers = fluid.layers
STEPS, ROWS, INNER, WIDTH = 24, 8, 16, 32
Feeds = dict[str, Any]


def _dense() -> Any:
    return fluid.data("x", [STEPS, ROWS, INNER]), {"x": np.ones((STEPS, ROWS, INNER), "float32")}


def _sequences() -> Any:
    x = fluid.data("x", [None, INNER], lod_level=1)
    rows = np.ones((ROWS * STEPS, INNER), "float32")
    return x, {"x": fluid.create_lod_tensor(rows, [[STEPS] * ROWS], fluid.CPUPlace())}


def _static() -> tuple[Any, Feeds]:
    x, feed = _dense()
    rnn = layers.StaticRNN()
    with rnn.step():
        part = rnn.step_input(x)
        before = rnn.memory(shape=[-1, WIDTH], batch_ref=part)
        hidden = layers.fc([part, before], WIDTH, act="relu")
        rnn.update_memory(before, hidden)
        rnn.step_output(hidden)
    return rnn(), feed


def _dynamic() -> tuple[Any, Feeds]:
    x, feed = _sequences()
    rnn = layers.DynamicRNN()
    with rnn.block():
        part, before = rnn.step_input(x), rnn.memory(shape=[WIDTH], value=0.0)
        hidden = layers.fc([part, before], WIDTH, act="relu")
        rnn.update_memory(before, hidden)
        rnn.output(hidden)
    return layers.sequence_last_step(rnn()), feed


def _cell() -> tuple[Any, Feeds]:
    x, feed = _dense()
    return layers.rnn(layers.LSTMCell(WIDTH), x, time_major=True)[0], feed


def _lstm() -> tuple[Any, Feeds]:
    x, feed = _sequences()
    return layers.dynamic_lstm(layers.fc(x, 4 * WIDTH), 4 * WIDTH)[0], feed


def _gru() -> tuple[Any, Feeds]:
    x, feed = _sequences()
    return layers.dynamic_gru(layers.fc(x, 3 * WIDTH), WIDTH), feed


def _layers_of_lstm() -> tuple[Any, Feeds]:
    x, feed = _dense()
    hidden, cell = (layers.fill_constant([2, ROWS, WIDTH], "float32", 0.0) for _ in range(2))
    return layers.lstm(x, hidden, cell, STEPS, WIDTH, 2)[0], feed


@pytest.mark.parametrize("build", [_static, _dynamic, _cell, _lstm, _gru, _layers_of_lstm])
@pytest.mark.parametrize("compiled", [False, True])
def test_what_loops_keep_is_planned(
    build: Callable[[], tuple[Any, Feeds]], compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_activations, "_MANY", 1)
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        out, feed = build()
        loss = layers.mean(layers.square(out))
        fluid.optimizer.SGD(0.1).minimize(loss)
    executor = fluid.Executor()
    loops = flags.override({"FLAGS_refluid_recurrent_loops": compiled})
    with fluid.scope_guard(fluid.Scope()), loops:
        executor.run(startup)
        report = memory_report(executor, main, feed, [loss])
    own, planned = report.peak - report.state, report.planned.peak - report.planned.state
    # DynamicRNN 1.16 in a process's first run, in which things are made that stay, 1.23 later.
    # Compiled loops of an LSTM's steps keep less than torch's kernels, for which it is planned.
    assert 0.95 * own <= planned <= (1.35 if compiled and build is _lstm else 1.25) * own


def _chain(memory: Memory) -> int:
    """The planned bytes, besides state, of a chain of operators that all could work in place."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        x = fluid.data("x", [ROWS, WIDTH])
        out = layers.square(x)
        for _ in range(4):
            out = layers.relu(layers.scale(out, 2.0))
        loss = layers.mean(out)
    request = Request(main.global_block(), ("x",), (loss.name,), torch.device("cpu"), memory=memory)
    return planned_peak(request, {"x": (ROWS, WIDTH)}).peak // (4 * ROWS * WIDTH)


def test_what_is_freed_and_overwritten_is_what_the_plan_says() -> None:
    size = 4 * ROWS * WIDTH
    assert _chain(Memory()) == 2
    assert _chain(Memory(garbage=math.inf)) == 6  # relu works in place, scale does not
    assert _chain(Memory(in_place=False, garbage=math.inf)) == 10
    assert _chain(Memory(in_place=False, garbage=4 * size)) == 5
