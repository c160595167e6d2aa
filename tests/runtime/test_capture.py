"""Steps captured as graphs: feeds, variables and results lie where the graph was told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.core.scope import Scope
from refluid.ir.operator import Operator
from refluid.runtime.recorded import capture, tiers
from refluid.runtime.recorded.capture import CAPTURES, WARM_UP, Captured
from refluid.runtime.recorded.graph import Layout, Line, Value
from refluid.runtime.recorded.repeating import all_on
from refluid.runtime.steps import Bind, Call, For
from refluid.runtime.trees import Name


class Rehearsal:
    """An engine without a GPU: it runs the function again, with what was captured.

    Capturing runs nothing: what it changes is put back.
    """

    def __init__(self, state: list[torch.Tensor]) -> None:
        self.state = state
        self.made: list[Any] = []

    def capture(self, run: Callable[[], None]) -> None:
        before = [one.clone() for one in self.state]
        run()
        for one, value in zip(self.state, before, strict=True):
            one.copy_(value)
        self.run = run

    def replay(self) -> None:
        self.run()


class Training:
    """w += x, in place or by a new tensor; fetches w and the sum of x."""

    def __init__(self, *, replaces: bool) -> None:
        self.replaces = replaces
        scope = Scope()
        self.cell = scope.var("w")
        self.cell.value = torch.zeros(2)
        self.plain = 0
        self.captured = Captured(self.step, lambda: Rehearsal([self.cell.value]))

    def step(self, feeds: Any, cells: Any, levels: Any) -> Any:
        self.plain += 1
        (x,), (cell,) = feeds, cells
        if self.replaces:
            cell.value = cell.value + x
        else:
            cell.value += x
        return (cell.value, x.sum()), ((), ())

    def run(self, *x: float) -> list[Any]:
        results, _ = self.captured([torch.tensor(x)], [self.cell], ())
        return [one.tolist() for one in results]


@pytest.mark.parametrize("replaces", [False, True], ids=["in place", "replaced"])
def test_steps_go_on_where_the_last_one_ended(replaces: bool) -> None:
    training = Training(replaces=replaces)
    found = [training.run(k, 2.0 * k) for k in range(6)]
    assert [one[0] for one in found] == [[s, 2.0 * s] for s in (0, 1, 3, 6, 10, 15)]
    assert [one[1] for one in found] == [3.0 * k for k in range(6)]


def test_the_variable_stays_the_same_tensor() -> None:
    training = Training(replaces=True)
    for _ in range(WARM_UP):
        training.run(1.0, 1.0)
    held = training.cell.value
    training.run(1.0, 1.0)
    training.run(1.0, 1.0)
    assert training.cell.value is held


def test_fetched_results_survive_the_next_step() -> None:
    training = Training(replaces=False)
    for _ in range(WARM_UP):
        training.run(0.0, 0.0)
    (first, _), _ = training.captured([torch.ones(2)], [training.cell], ())
    training.run(1.0, 1.0)
    assert first.tolist() == [1.0, 1.0]


def test_a_variable_that_is_replaced_is_captured_anew() -> None:
    training = Training(replaces=False)
    for _ in range(WARM_UP + 1):
        training.run(1.0, 1.0)
    training.cell.value = torch.full((2,), 100.0)
    found = [training.run(1.0, 1.0)[0] for _ in range(WARM_UP + 2)]
    assert found == [[101.0 + k] * 2 for k in range(WARM_UP + 2)]


def test_a_step_that_cant_be_captured_runs_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    training = Training(replaces=True)

    class Refusing(Rehearsal):
        def capture(self, run: Callable[[], None]) -> None:
            training.cell.value = torch.full((2,), np.nan)  # memory of the graph that isn't made
            raise RuntimeError("operation not permitted when stream is capturing")

    training.captured = Captured(training.step, lambda: Refusing([]))
    caplog.set_level("INFO", "refluid")
    for k in range(WARM_UP + CAPTURES):
        assert training.run(1.0, 1.0)[0] == [k + 1.0] * 2
    assert caplog.text.count("not permitted when stream is capturing") == 1


def _device_parts(op: str, device: str) -> list[Any]:
    """A line of the operator, with a tensor that lies there."""
    layout = Layout(torch.Size([2]), (1,), torch.float32, torch.device(device))
    called = Operator(fluid.Program().global_block(), op)
    line = Line(Call(None, Name(op), op=called), {Name("x"): Value("x", 1, layout)}, {})
    return [Line(Bind(Name("x"), None), {}, {}), line]


@pytest.mark.parametrize("op", ["relu", "sgd", "recurrent"])
def test_what_the_device_alone_runs_is_captured(op: str) -> None:
    assert all_on(torch.device("cpu"), _device_parts(op, "cpu"))
    assert not all_on(torch.device("cuda"), _device_parts(op, "cpu"))
    assert all_on(torch.device("cuda"), _device_parts(op, "cuda"))


@pytest.mark.parametrize("op", ["uniform_random", "print", "while", "py_func", "dropout"])
def test_what_python_does_is_not_captured(op: str) -> None:
    assert not all_on(torch.device("cuda"), _device_parts(op, "cuda"))


def test_loops_are_captured_if_shapes_decide_them() -> None:
    (_, call) = _device_parts("relu", "cuda")
    for kind, captured in (("recurrent", True), ("while", False)):
        (_, line) = _device_parts(kind, "cuda")
        loop = For(Name("steps"), [call.step], target=Name("t"), op=line.step.op)
        assert all_on(torch.device("cuda"), [Line(loop, {}, {})]) is captured
    (_, reading) = _device_parts("print", "cuda")
    (_, line) = _device_parts("recurrent", "cuda")
    loop = For(Name("steps"), [reading.step], target=Name("t"), op=line.step.op)
    assert not all_on(torch.device("cuda"), [Line(loop, {}, {})])


def test_recorded_steps_ask_for_graphs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once per plan, with the memory that its recordings share; refused, they run as they are."""
    made: list[Any] = []

    class Refusing(Rehearsal):
        def __init__(self, generators: Any, memory: Any) -> None:
            assert len(generators) == 1
            made.append(memory)

        def capture(self, run: Callable[[], None]) -> None:
            raise RuntimeError("no graphs here")

    def losses() -> list[float]:
        main, startup = fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 5
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x = fluid.data("x", [None, 8])
            loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.fc(x, 16, act="relu"), 1))
            fluid.optimizer.SGD(0.01).minimize(loss)
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        exe.run(startup, scope=scope)
        feeds = [{"x": np.full((2 + k % 2, 8), k, "float32")} for k in range(16)]
        return [float(exe.run(main, feed, [loss], scope=scope)[0][0]) for feed in feeds]

    monkeypatch.setattr(tiers, "GRAPHED", frozenset({"cpu"}))
    monkeypatch.setattr(capture, "CudaGraph", Refusing)
    caplog.set_level("INFO", "refluid")
    with flags.override({"FLAGS_refluid_tier": "recorded", "FLAGS_refluid_cuda_graphs": False}):
        plain = losses()
    assert not made
    with flags.override({"FLAGS_refluid_tier": "recorded"}):
        assert losses() == plain
    assert len(made) == 2 and made[0] is made[1]  # two sizes
    assert "a step was not captured as a CUDA graph: no graphs here" in caplog.text
