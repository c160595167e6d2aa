"""Recorded steps with products by panels give what they gave, but for rounding."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid import fluid
from refluid.core import flags
from refluid.kernels.onednn import linear
from refluid.runtime.recorded import paneling
from refluid.runtime.recorded.graph import Kernel, Layout, Line, Part, Value
from refluid.runtime.recorded.paneling import paneled
from refluid.runtime.steps import Call
from refluid.runtime.trees import Known, Name
from tests.kernels.panels import FLAG, always_by_panels

aten: Any = torch.ops.aten


class Drawn:
    """Products drawn at random, with writes to their factors between, run as they are drawn."""

    def __init__(self, seed: int) -> None:
        self.draws = random.Random(seed)
        torch.manual_seed(seed)
        self.steps: list[Part] = []
        self.known: dict[Value, Tensor] = {}
        self.inputs: dict[Value, Tensor] = {}
        inner, columns = (self.draws.choice([1, 5, 16, 33, 70]) for _ in range(2))
        whole = self._given(torch.randn(inner, 2 * columns))
        turned, double = self._given(torch.randn(columns, inner)), torch.randn(inner, columns)
        part = self._call(aten.slice.Tensor, whole, 1, columns, 2 * columns)
        thin = self._call(aten.slice.Tensor, whole, 1, 0, 2 * columns, 2)
        self.matrices = [whole, turned]
        self.rights = [part, thin, self._call(aten.t.default, turned)]
        self.turned, self.double = turned, self._given(double.double())
        wide = self._given(torch.randn(2 * columns))
        self.biases = [self._given(torch.randn(columns)), self._given(torch.randn(1, columns))]
        self.biases += [
            self._given(torch.randn(1)),
            self._call(aten.slice.Tensor, wide, 0, 0, 2 * columns, 2),
        ]
        self.inner = inner
        for _ in range(self.draws.randint(20, 60)):
            self._draw()

    def _given(self, tensor: Tensor) -> Value:
        value = self._value(tensor)
        self.inputs[value] = tensor.clone()
        return value

    def _value(self, tensor: Tensor) -> Value:
        layout = Layout(tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        value = Value(f"z{len(self.known)}", tensor.untyped_storage().data_ptr(), layout)
        self.known[value] = tensor
        return value

    def _draw(self) -> None:
        kind, draw = self.draws.random(), self.draws
        target = draw.choice(self.matrices)
        if kind < 0.05:
            self._call(aten.mul_.Scalar, target, -2.0, writes=target.storage)
            return
        if kind < 0.1:  # a line that writes over it
            line = Call(None, Known("fill"), (Name("a"),))
            self.known[target].fill_(0.5)
            self.steps.append(Line(line, {Name("a"): target}, {}))
            return
        rows = torch.randn(draw.choice([1, 3, 20, 64, 65, 90]), self.inner)
        if draw.random() < 0.2:
            rows = rows.t().contiguous().t()
        bias = draw.choice(self.biases)
        if kind < 0.15:
            self._call(aten.mm.default, self._given(rows.double()), self.double)
        elif kind < 0.35:
            self._call(aten.addmm.default, bias, self._given(rows), draw.choice(self.rights))
        elif kind < 0.6 and linear is not None:
            row = self.biases[0] if draw.random() < 0.5 else None
            act = draw.choice(["none", "none", "relu"])
            self._call(linear, self._given(rows), self.turned, row, act, [], "")
        else:
            self._call(aten.mm.default, self._given(rows), draw.choice(self.rights))

    def _call(self, func: Any, *args: Any, writes: int | None = None) -> Value:
        made = func(*[self.known[one] if isinstance(one, Value) else one for one in args])
        out = self._value(made)
        written = frozenset() if writes is None else frozenset([writes])
        self.steps.append(Kernel(func, args, {}, [out], written))
        return out


def results(steps: list[Part], inputs: dict[Value, Tensor]) -> dict[str, Tensor]:
    """What each product gives, by its name."""
    known = {value: tensor.clone() for value, tensor in inputs.items()}
    found: dict[str, Tensor] = {}
    for step in steps:
        if isinstance(step, Line):
            (target,) = step.loads.values()
            known[target].fill_(0.5)
            continue
        assert isinstance(step, Kernel)
        (out,) = step.outs
        assert out is not None
        known[out] = step.func(*[known[a] if isinstance(a, Value) else a for a in step.args])
        if out.name.startswith("z"):
            found[out.name] = known[out].clone()
    return found


@pytest.mark.parametrize("group", range(6))
def test_steps_at_random(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    entered = always_by_panels(monkeypatch)
    made: list[str] = []
    for seed in range(20 * group, 20 * (group + 1)):
        drawn = Drawn(seed)
        steps = paneled(drawn.steps)
        made += [one.name for one in steps if isinstance(one, Kernel)]
        wanted = results(drawn.steps, drawn.inputs)
        for name, found in results(steps, drawn.inputs).items():
            assert found.stride() == wanted[name].stride()
            scale = max(1.0, float(wanted[name].abs().max()))
            torch.testing.assert_close(
                found, wanted[name], rtol=1e-5, atol=1e-5 * scale, msg=f"{seed} {name}"
            )
    for name in ("panel_product", "lay_panels", "laid_product"):
        assert made.count(name) > 10
    assert made.count("laid_product") == entered["multiply_right"]


def _sequences(width: int) -> Any:
    layers = fluid.layers
    rows = layers.data("rows", [width], lod_level=1)
    hidden, _ = layers.dynamic_lstm(layers.fc(rows, 4 * width, bias_attr=False), 4 * width)
    hidden = layers.dynamic_gru(layers.fc(hidden, 3 * width), width)
    return layers.fc(hidden, 7, act="tanh")


def _steps(width: int) -> Any:
    layers = fluid.layers
    rows = fluid.data("rows", [9, 5, width])
    weight = layers.create_parameter([width, width], "float32", name="w")
    rnn = layers.StaticRNN()
    with rnn.step():
        row = rnn.step_input(rows)
        memory = rnn.memory(shape=[-1, width], batch_ref=row)
        new = layers.tanh(layers.matmul(memory, weight) + row)
        rnn.update_memory(memory, new)
        rnn.step_output(new)
    return rnn()


def _layers(width: int) -> Any:
    rows = fluid.data("rows", [None, width])
    hidden = fluid.layers.fc(rows, 3 * width, act="relu")
    return fluid.layers.fc(hidden, 11, bias_attr=False)


NETWORKS = {"sequences": _sequences, "steps": _steps, "layers": _layers}


def trained(name: str, seed: int, *, by_panels: bool, tier: str) -> list[Any]:
    """Losses of steps of a network whose sizes are drawn, and its parameters then."""
    draws, values = random.Random(seed), np.random.default_rng(seed)
    width = draws.randint(3, 40)
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = seed + 1
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = fluid.layers.mean(fluid.layers.square(NETWORKS[name](width)))
        fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
    lengths = [[draws.randint(1, 9) for _ in range(draws.randint(1, 6))] for _ in range(4)] * 3
    with fluid.scope_guard(scope), flags.override({FLAG: by_panels, "FLAGS_refluid_tier": tier}):
        exe.run(startup)
        found = []
        for one in lengths:
            shape = (9, 5, width) if name == "steps" else (sum(one), width)
            rows = values.normal(size=shape).astype("float32")
            fed: Any = rows
            if name == "sequences":
                fed = fluid.create_lod_tensor(rows, [one], fluid.CPUPlace())
            found += exe.run(main, {"rows": fed}, [loss])
        return [
            *found,
            *(np.array(scope.find_var(p.name).get_tensor()) for p in main.all_parameters()),
        ]


@pytest.mark.parametrize("tier", ["interpreted", "recorded"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_train_as_before(name: str, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entered = always_by_panels(monkeypatch)
    for seed in range(4):
        wanted = trained(name, seed, by_panels=False, tier=tier)
        assert not entered
        found = trained(name, seed, by_panels=True, tier=tier)
        assert entered
        entered.clear()
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", NETWORKS)
def test_compiled_networks_train_as_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entered = always_by_panels(monkeypatch)
    wanted = trained(name, 1, by_panels=False, tier="recorded")
    for one, other in zip(trained(name, 1, by_panels=True, tier="compiled"), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert entered


@pytest.mark.parametrize("seed", range(10))
def test_how_factors_lie_is_said_of_those_that_are_multiplied(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, ...]] = []

    def pays(*given: int) -> bool:
        asked.append(given)
        return True

    always_by_panels(monkeypatch)
    monkeypatch.setattr(paneling, "pays", pays)
    monkeypatch.setattr(paneling, "pays_shared", lambda *_: False)
    found = []
    for step in paneled(Drawn(seed).steps):
        if isinstance(step, Kernel) and step.func is torch.ops.refluid.panel_product.default:
            a, b = (one.layout for one in step.args[:2])
            lying = (int(one.stride[1] != 1) for one in (a, b))
            found.append((*a.shape, b.shape[1], *lying))
    assert found == asked
    assert found
