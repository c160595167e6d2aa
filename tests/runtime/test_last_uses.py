"""Kernels that write over spent inputs give every number that the recording gave."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid import fluid
from refluid.core import flags
from refluid.runtime.recorded import tiers
from refluid.runtime.recorded.graph import Compiled, Kernel, Layout, Part, Value
from refluid.runtime.recorded.last_uses import over_last_uses

aten: Any = torch.ops.aten
SHAPES = [(4, 6), (4, 6), (6,), (1, 6), (4, 1)]
ONES = [aten.relu.default, aten.tanh.default, aten.neg.default, aten.exp.default]
TWOS = [aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor]
VIEWS = [(aten.view.default, [-1]), (aten.t.default,), (aten.unsqueeze.default, 0)]
KINDS = ["one", "one", "two", "two", "two", "view", "write", "cat", "read"]
VIEWS += [(aten.slice.Tensor, 0, 1, 3), (aten.expand.default, [3, 4, 6])]


class Drawn:
    """Kernels drawn at random, run once, as a recording has them."""

    def __init__(self, seed: int) -> None:
        self.draws = random.Random(seed)
        torch.manual_seed(seed)
        self.steps: list[Part | Compiled] = []
        self.held: list[tuple[Value, Tensor]] = []
        self.given = [self._value(torch.randn(shape)) for shape in SHAPES]
        self.inputs = {value: tensor.clone() for value, tensor in self.held}
        if seed % 3 == 0:
            value, tensor = self.held[0]
            value.constant = tensor
        for _ in range(40):
            self._draw()
        self._read([self._one() for _ in range(3)])

    def _value(self, tensor: Tensor) -> Value:
        layout = Layout(tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        value = Value(f"z{len(self.held)}", tensor.untyped_storage().data_ptr(), layout)
        self.held.append((value, tensor))  # so that no memory is another's later
        return value

    def _one(self) -> tuple[Value, Tensor]:
        return self.draws.choice(self.held[-8:] if self.draws.random() < 0.8 else self.held)

    def _draw(self) -> None:
        kind = self.draws.choice(KINDS)
        if kind == "read" and self.draws.random() < 0.5:
            self._read([self._one()])
        elif kind == "one":
            self._call(self.draws.choice(ONES), self._one())
        elif kind == "two":
            other = 2.0 if self.draws.random() < 0.2 else self._one()
            named = {"alpha": 2} if self.draws.random() < 0.2 else {}
            func = self.draws.choice(TWOS[:2] if named else TWOS)
            self._call(func, self._one(), other, **named)
        elif kind == "view":
            func, *rest = self.draws.choice(VIEWS)
            self._call(func, self._one(), *rest)
        elif kind == "cat":
            self._call(aten.cat.default, [self._one(), self._one()])
        elif kind == "write" and len(self.held) > len(SHAPES):
            target = self.draws.choice(self.held[len(SHAPES) :])
            self._call(aten.add_.Tensor, target, self._one(), writes=target[0].storage)

    def _call(self, func: Any, *args: Any, writes: int | None = None, **named: Any) -> None:
        try:
            made = func(*_mapped(args, 1), **named)
        except RuntimeError:  # shapes don't go together
            return
        outs: list[Value | None] = [self._value(made)]
        written = frozenset() if writes is None else frozenset([writes])
        self.steps.append(Kernel(func, _mapped(args, 0), named, outs, written))

    def _read(self, seen: list[tuple[Value, Tensor]]) -> None:
        """A part of a step that is no kernel sees these."""
        self.steps.append(Compiled(lambda *_: (), [value for value, _ in seen], []))


def _mapped(args: Any, place: int) -> Any:
    if isinstance(args, list):
        return [_mapped(one, place) for one in args]
    if isinstance(args, tuple):
        if len(args) == 2 and isinstance(args[0], Value):
            return args[place]
        return tuple(_mapped(one, place) for one in args)
    return args


def read_by(steps: list[Part | Compiled], inputs: dict[Value, Tensor]) -> list[Tensor]:
    """What parts that are no kernels hold on to, and then what was given."""
    known = {value: tensor.clone() for value, tensor in inputs.items()}
    seen: list[Tensor] = []
    for step in steps:
        if isinstance(step, Compiled):
            seen += [known[value] for value in step.ins]
            continue
        assert isinstance(step, Kernel)
        args = [_found(one, known) for one in step.args]
        (out,) = step.outs
        assert out is not None
        known[out] = step.func(*args, **step.kwargs)
    return [*seen, *(known[value] for value in inputs)]


def _found(one: Any, known: dict[Value, Tensor]) -> Any:
    if isinstance(one, list):
        return [_found(each, known) for each in one]
    return known[one] if isinstance(one, Value) else one


@pytest.mark.parametrize("group", range(10))
def test_steps_at_random(group: int) -> None:
    changed = 0
    for seed in range(30 * group, 30 * (group + 1)):
        drawn = Drawn(seed)
        steps = over_last_uses(drawn.steps)
        pairs = zip(steps, drawn.steps, strict=True)
        changed += sum(one is not other for one, other in pairs)
        wanted = read_by(drawn.steps, drawn.inputs)
        for one, other in zip(read_by(steps, drawn.inputs), wanted, strict=True):
            assert one.stride() == other.stride(), seed
            assert torch.equal(one.nan_to_num(), other.nan_to_num()), seed
    assert changed > 20


def trained(**strategy: bool) -> list[bytes]:
    """What some steps fetch, of a network with an intermediate result that is fetched, too."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 8])
        hidden = fluid.layers.fc(x, 16, act="tanh")
        scaled = fluid.layers.elementwise_mul(hidden * hidden, hidden)
        loss = fluid.layers.mean(fluid.layers.square(scaled + 1.0))
        clip = fluid.clip.GradientClipByGlobalNorm(0.1)
        fluid.optimizer.SGD(0.5, grad_clip=clip).minimize(loss)
    build = fluid.BuildStrategy()
    for name, value in strategy.items():
        setattr(build, name, value)
    program = fluid.CompiledProgram(main, build)
    scope, exe = fluid.Scope(), fluid.Executor()
    exe.run(startup, scope=scope)
    feed = {"x": np.random.default_rng(0).normal(size=(5, 8)).astype("float32")}
    found = [exe.run(program, feed, [loss, scaled], scope=scope) for _ in range(7)]
    return [one.tobytes() for step in found for one in step]


def test_recorded_steps_write_over_spent_inputs_unless_they_are_not_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed: list[int] = []

    def watched(steps: list[Part | Compiled]) -> list[Part | Compiled]:
        found = over_last_uses(steps)
        changed.append(sum(one is not other for one, other in zip(found, steps, strict=True)))
        return found

    monkeypatch.setattr(tiers, "over_last_uses", watched)
    with flags.override({"FLAGS_refluid_tier": "recorded"}):
        usual = trained()
        assert sum(changed) > 3
        changed.clear()
        assert trained(enable_inplace=False) == usual
        with flags.override({"FLAGS_refluid_last_uses": False}):
            assert trained() == usual
    assert not any(changed)  # of the startup program
    with flags.override({"FLAGS_refluid_tier": "interpreted"}):
        assert trained() == usual
