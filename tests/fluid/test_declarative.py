"""Declarative functions: programs that compute, and differentiate, what dygraph does."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.fluid.dygraph.translation import branches, loops
from refluid.ir.program import Program
from refluid.translate import jumps
from tests.choices import often
from tests.golden import GOLDEN, needs_golden
from tests.translate.functions import Writer, defined

dygraph, layers = fluid.dygraph, fluid.layers
Arrays = list[Any]


@pytest.fixture(autouse=True)
def _translator() -> Iterator[None]:
    dygraph.ProgramTranslator().enable(True)
    yield
    dygraph.ProgramTranslator().reset()


def values(function: Callable[..., Any], seed: int) -> Arrays:
    """What a function of two tensors gives, and the gradients of both."""
    with dygraph.guard():
        random = np.random.RandomState(seed)
        x, w = (dygraph.to_variable(random.randn(3, 4).astype("float32")) for _ in range(2))
        x.stop_gradient = w.stop_gradient = False
        y = function(x, w)
        layers.mean(layers.square(y)).backward()
        return [y.numpy(), x.gradient(), w.gradient()]


def agree(seed: int) -> bool:
    """Whether a random function and its program give the same."""
    function = defined(Writer(seed).text())
    one, other = values(function, seed), values(dygraph.declarative(function), seed)
    return all(
        (a is None or not a.any()) if b is None else np.allclose(a, b, rtol=1e-4, atol=1e-6)
        for b, a in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("seed", often(range(24), [*range(5), *range(8, 15)]))
def test_random_functions(seed: int) -> None:
    assert agree(seed), Writer(seed).text()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(100, 151), 3441, 3470, 5953])
def test_more_random_functions(seed: int) -> None:
    assert agree(seed), Writer(seed).text()


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "branches change places": lambda patch: patch.setattr(
        branches, "select_input", lambda inputs, mask: SELECT(inputs[::-1], mask)
    ),
    "what a branch lacks is the other's": lambda patch: patch.setattr(
        branches, "filled", lambda value, dtype, like: FILLED(1, dtype, like)
    ),
    "what follows a jump is run": lambda patch: patch.setattr(
        jumps, "_none_of", lambda _flags: ast.Constant(True)
    ),
    "a tensor isn't handed on": lambda patch: patch.setattr(loops, "pairs_of", _numbers_alone),
}


def _numbers_alone(new: Any, old: Any, held: set[int]) -> list[Any]:
    return [pair for pair in PAIRS(new, old, held) if pair[1].dtype != VarType.FP32]


SELECT, FILLED, PAIRS = branches.select_input, branches.filled, loops.pairs_of


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[fault](monkeypatch)

    def passes(seed: int) -> bool:
        try:
            return agree(seed)
        except Exception:  # a fault that shows as an error is found too
            return False

    assert not all(passes(seed) for seed in range(60))


class Net(dygraph.Layer):
    """A network with state, whose depth hangs on what it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = dygraph.Sequential(dygraph.Linear(8, 16, act="relu"), Deep(16))
        self.norm, self.drop = dygraph.BatchNorm(16), dygraph.Dropout(0.3)
        self.last = dygraph.Linear(16, 1)

    def forward(self, x: Any, double: bool = False) -> Any:
        """The prediction, and how often a loop ran."""
        h = self.drop(self.norm(self.parts(x)))
        if double:
            h = h * 2
        rounds = 0
        while layers.reduce_mean(h) < layers.reduce_max(x):
            h = h + 0.5 * layers.abs(h) + 0.1
            rounds += 1
        return self.last(h), rounds


class Deep(dygraph.Layer):
    """A part whose own forward has control flow."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = dygraph.Linear(size, size)

    def forward(self, x: Any) -> Any:
        """One of two."""
        if layers.mean(x) > 0.1:
            return self.linear(x)
        return x - 1


class Declared(Net):
    """The same as a program."""

    @dygraph.declarative
    def forward(self, x: Any, double: bool = False) -> Any:
        """As that."""
        return super().forward(x, double)


def trained(kind: type[Net], steps: int = 8) -> tuple[Any, ...]:
    """Losses, rounds and the state after some steps."""
    with dygraph.guard():
        net, random = kind(), np.random.RandomState(3)
        net.drop._p = net.drop._dropout_prob = 0.0
        for one in net.parameters():
            value = np.random.RandomState(sum(one.shape)).randn(*one.shape) * 0.2
            one.set_value(value.astype("float32"))
        adam = fluid.optimizer.Adam(0.01, parameter_list=net.parameters())
        seen = []
        for step in range(steps):
            x = dygraph.to_variable((random.randn(4, 8) * (step + 1)).astype("float32"))
            y, rounds = net(x, step % 2 == 1)
            loss = layers.mean(layers.square(y - 1.0))
            loss.backward()
            adam.minimize(loss)
            net.clear_gradients()
            seen.append((float(loss), int(rounds)))
        net.eval()
        y, _ = net(x)
        state = {name: one.numpy() for name, one in net.state_dict().items()}
        return seen, y.numpy(), state, net.norm._mean.numpy()


def test_a_network_trains_as_in_dygraph_to_the_bit() -> None:
    (one, y, state, mean), (other, z, other_state, other_mean) = map(trained, (Net, Declared))
    assert one == other
    assert len({rounds for _, rounds in one}) > 1
    np.testing.assert_array_equal(y, z)
    np.testing.assert_array_equal(mean, other_mean)
    for name, value in state.items():
        np.testing.assert_array_equal(value, other_state[name], err_msg=name)


def test_one_program_for_arguments_of_one_kind() -> None:
    made = []

    def function(x: Any, factor: float) -> Any:
        made.append(x.shape)
        return x * factor

    declared = dygraph.declarative(function)
    with dygraph.guard():
        for shape, factor in (((2, 3), 2.0), ((2, 3), 2.0), ((2, 3), 3.0), ((4, 3), 2.0)):
            x = np.ones(shape, "float32")
            np.testing.assert_array_equal(declared(x, factor).numpy(), x * factor)
    assert len(made) == 3


def test_two_runs_before_their_gradients() -> None:
    @dygraph.declarative
    def function(x: Any) -> Any:
        if layers.mean(x) > 0:
            return x * x
        return -x

    with dygraph.guard():
        one, other = (
            dygraph.to_variable(np.full([2], number, "float32")) for number in (3.0, -5.0)
        )
        one.stop_gradient = other.stop_gradient = False
        layers.reduce_sum(function(one) + function(other)).backward()
        assert one.gradient().tolist() == [6.0, 6.0]
        assert other.gradient().tolist() == [-1.0, -1.0]
        loss = layers.reduce_sum(function(one))
        loss.backward()
        with pytest.raises((EnforceNotMet, RuntimeError), match="second time"):
            loss.backward()


def documented(x: Any) -> Any:
    """The function of the documentation."""
    x = dygraph.to_variable(x)
    if layers.mean(x) > 0:
        x_v = x - 1
    else:
        x_v = x + 1
    return x_v


@needs_golden
def test_the_program_is_as_recorded() -> None:
    file = GOLDEN / "ops/paddle.fluid.dygraph.ProgramTranslator.get_program-0/auto.000.npz"
    with np.load(file, allow_pickle=True) as found:
        recorded = Program.parse_from_string(found["program"].tobytes())
    with dygraph.guard():
        main, startup, inputs, outputs = dygraph.ProgramTranslator().get_program(
            documented, np.ones([1, 2])
        )
    assert [one.name for one in inputs] == ["feed_0"]
    assert len(outputs) == 1
    assert not startup.global_block().ops
    for own, other in zip(main.blocks, recorded.blocks, strict=True):
        assert [op.type for op in own.ops] == [op.type for op in other.ops]


def test_translator(tmp_path: Path) -> None:
    translator = dygraph.ProgramTranslator.get_instance()
    assert translator is dygraph.ProgramTranslator()
    x = np.ones([1, 2], "float32")
    with dygraph.guard():
        assert translator.get_output(documented, x).numpy().tolist() == [[0.0, 0.0]]
        translator.enable(False)
        assert translator.get_output(documented, -x).numpy().tolist() == [[0.0, 0.0]]
        translator.enable(True)
        assert "branch(" in translator.get_code(documented)
        with pytest.raises(TypeError, match="bool"):
            translator.enable("no")
        net = Declared()
        net.eval()
        y, _ = net(dygraph.to_variable(np.ones([3, 8], "float32")))
        translator.save_inference_model(str(tmp_path), fetch=[0])
        expected = y.numpy()
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(str(tmp_path), exe)
        (found,) = exe.run(program, feed={feeds[0]: np.ones([3, 8], "float32")}, fetch_list=fetches)
    np.testing.assert_array_equal(found, expected)


def test_functions_append_to_static_programs() -> None:
    function = dygraph.dygraph_to_static_func(documented)
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = layers.fill_constant([3, 3], "float64", 1.0)
        y = function(x)
        (found,) = fluid.Executor(fluid.CPUPlace()).run(
            fluid.default_main_program(), fetch_list=[y]
        )
    assert found.tolist() == [[0.0] * 3] * 3
    with dygraph.guard():
        assert function(-np.ones([2])).numpy().tolist() == [0.0, 0.0]


def test_python_functions_on_tensors(capfd: pytest.CaptureFixture[str]) -> None:
    def function(x: Any, n: Any) -> Any:
        total = float(n) * 0
        for i in range(n):
            total = total + i
        for i, row in enumerate(x):
            total = total + layers.reduce_sum(row) * i
        print(total)
        print("once")
        return total, len(x), int(total), [abs(row) for row in x]

    with dygraph.guard():
        x, n = np.ones([3, 2], "float32"), np.array([4], "int64")
        total, size, whole, rows = dygraph.declarative(function)(x, n)
        assert total.numpy().tolist() == [12.0]
        assert (size, whole.numpy().tolist(), len(rows)) == (3, [12], 3)
    shown = capfd.readouterr()
    assert "12" in shown.out + shown.err
    assert shown.out.count("once") == 1
