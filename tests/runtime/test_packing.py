"""Products by copies in MKL's order give what the products gave, but for rounding."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid import fluid
from refluid.core import flags
from refluid.kernels.packed import ROWS, linear
from refluid.runtime.recorded import packing
from refluid.runtime.recorded.graph import Kernel, Layout, Line, Part, Value
from refluid.runtime.recorded.packing import packed
from refluid.runtime.steps import Call
from refluid.runtime.trees import Known, Name

pytestmark = pytest.mark.skipif(linear is None, reason="torch has no MKL here")

aten: Any = torch.ops.aten
FLAG = "FLAGS_refluid_packed_weights"


@pytest.fixture(autouse=True)
def _small_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "LEAST", 6)
    monkeypatch.setattr(packing, "USES", 3)


class Drawn:
    """Products drawn at random, with writes to their factors between, run as they are drawn."""

    def __init__(self, seed: int) -> None:
        self.draws = random.Random(seed)
        torch.manual_seed(seed)
        self.steps: list[Part] = []
        self.known: dict[Value, Tensor] = {}
        width, height = self.draws.choice([1, 5, 16, 33]), self.draws.choice([3, 4, 21, 40])
        whole = self._value(torch.randn(2 * height, width))
        other = self._value(torch.randn(height, width))
        square = self._value(torch.randn(width, width))
        self.matrices = [whole, other, square]
        self.inputs = {one: self.known[one].clone() for one in self.matrices}
        part = self._call(aten.slice.Tensor, whole, 0, height, 2 * height)
        cut = self._call(aten.slice.Tensor, whole, 1, 0, max(1, width - 1))
        self.views = [self._call(aten.t.default, one) for one in (whole, other, part, cut)]
        self.views.append(self._call(aten.transpose.int, other, 0, 1))
        self.views.append(self._call(aten.permute.default, square, [0, 1]))
        self.sizes = self.draws.sample([1, 2, 7, ROWS, ROWS + 1], 2)
        for _ in range(self.draws.randint(20, 80)):
            self._draw()

    def _value(self, tensor: Tensor) -> Value:
        layout = Layout(tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        value = Value(f"z{len(self.known)}", tensor.untyped_storage().data_ptr(), layout)
        self.known[value] = tensor
        return value

    def _draw(self) -> None:
        kind = self.draws.random()
        target = self.draws.choice(self.matrices)
        if kind < 0.05:
            self._call(aten.mul_.Scalar, target, -2.0, writes=target.storage)
        elif kind < 0.1:  # a line that writes over it
            line = Call(None, Known("fill"), (Name("a"),))
            self.known[target].fill_(0.5)
            self.steps.append(Line(line, {Name("a"): target}, {}))
        else:
            view = self.draws.choice(self.views)
            inner = self.known[view].shape[0]
            rows = torch.randn(self.draws.choice(self.sizes), inner)
            if self.draws.random() < 0.2:  # a factor in another order
                rows = rows.t().contiguous().t()
            given = self._value(rows)
            self.inputs[given] = rows
            self._call(aten.mm.default, given, view)

    def _call(self, func: Any, *args: Any, writes: int | None = None) -> Value:
        made = func(*[self.known[one] if isinstance(one, Value) else one for one in args])
        out = self._value(made)
        written = frozenset() if writes is None else frozenset([writes])
        self.steps.append(Kernel(func, args, {}, [out], written))
        return out


def results(steps: list[Part], inputs: dict[Value, Tensor]) -> dict[str, Tensor]:
    """What each product gives, by its name."""
    known = {value: tensor.clone() for value, tensor in inputs.items()}
    for step in steps:
        if isinstance(step, Line):
            (target,) = step.loads.values()
            known[target].fill_(0.5)
            continue
        assert isinstance(step, Kernel)
        (out,) = step.outs
        assert out is not None
        known[out] = step.func(*[known[a] if isinstance(a, Value) else a for a in step.args])
        if step.name in ("mm", "_mkl_linear"):
            known[out] = known[out].clone()
    return {one.name: tensor for one, tensor in known.items() if one.name.startswith("z")}


@pytest.mark.parametrize("group", range(10))
def test_steps_at_random(group: int) -> None:
    copies = 0
    for seed in range(20 * group, 20 * (group + 1)):
        drawn = Drawn(seed)
        steps = packed(drawn.steps)
        copies += len(steps) - len(drawn.steps)
        for one in steps:
            if isinstance(one, Kernel) and one.name == "_mkl_linear":
                assert one.args[-1] == one.args[0].layout.shape[0] <= ROWS
        wanted = results(drawn.steps, drawn.inputs)
        for name, found in results(steps, drawn.inputs).items():
            assert found.stride() == wanted[name].stride()
            scale = float(wanted[name].abs().max())
            torch.testing.assert_close(
                found, wanted[name], rtol=1e-5, atol=1e-5 * scale, msg=f"{seed} {name}"
            )
    assert copies > 10


def trained(seed: int, *, packs: bool, tier: str) -> list[Any]:
    """What some steps of a StaticRNN fetch, whose sizes are drawn, and its parameters then."""
    draws = random.Random(seed)
    width, batch, times = draws.randint(3, 40), draws.randint(1, 9), draws.randint(8, 12)
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = seed + 1
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        rows = fluid.data("rows", [times, batch, width])
        weight = fluid.layers.create_parameter([width, width], "float32", name="w")
        rnn = fluid.layers.StaticRNN()
        with rnn.step():
            row = rnn.step_input(rows)
            memory = rnn.memory(shape=[-1, width], batch_ref=row)
            product = fluid.layers.matmul(memory, weight, transpose_y=draws.random() < 0.5)
            new = fluid.layers.tanh(product + row)
            rnn.update_memory(memory, new)
            rnn.step_output(new)
        loss = fluid.layers.mean(fluid.layers.square(rnn()))
        fluid.optimizer.Momentum(0.5, 0.9).minimize(loss)
    scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
    values = np.random.default_rng(seed).normal(size=(5, times, batch, width)).astype("float32")
    with fluid.scope_guard(scope), flags.override({FLAG: packs, "FLAGS_refluid_tier": tier}):
        exe.run(startup)
        found = [exe.run(main, {"rows": one}, [loss, "w@GRAD"]) for one in values]
        return [
            *(one for step in found for one in step),
            np.array(scope.find_var("w").get_tensor()),
        ]


@pytest.mark.parametrize("seed", range(6))
def test_loops_train_as_before(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Part] = []
    monkeypatch.setattr(
        packing, "packed", lambda steps: made.extend(packed(steps)) or packed(steps)
    )
    wanted = trained(seed, packs=False, tier="recorded")
    assert not made
    for tier in ("recorded", "compiled") if seed == 0 else ("recorded",):
        for one, other in zip(trained(seed, packs=True, tier=tier), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert sum(isinstance(one, Kernel) and one.name == "_mkl_linear" for one in made) >= 3
