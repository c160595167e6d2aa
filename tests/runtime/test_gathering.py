"""Kernels put together, and writes that nobody reads left out: lines see what they saw before."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from refluid.ops.effects import Effect
from refluid.runtime.recorded.compile import is_left
from refluid.runtime.recorded.gathering import gathered
from refluid.runtime.recorded.graph import Kernel, Layout, Line, Part, Value
from refluid.runtime.recorded.simplify import simplify
from refluid.runtime.steps import Call
from refluid.runtime.trees import Known, Name

aten: Any = torch.ops.aten
IDS = Value("ids", constant=torch.tensor([5, 0, 3, 3, 1, 2]))


class Box:
    """An object that a line makes of a tensor, and a later one looks into, and changes."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


# What lines do, of one value each, and what is known of it.
LINES: dict[str, tuple[Callable[[Any], Any], Effect]] = {
    "new": (lambda one: one * 1.5, Effect.NONE),
    "boxed": (Box, Effect.NONE),
    "changed": (lambda one: one.add_(1.0), Effect.STATE),
    "told": (lambda one: one.clone(), Effect.HOST),
}
KINDS = ["kernel"] * 9 + ["view", "view", "write", "write", "lookup", "lookup", "draw", "unbox"]


class Drawn:
    """Steps drawn at random, of tensors [6, 4], as a recording has them: none is run yet."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.steps: list[Part] = []
        self.values: list[Value] = []
        self.boxes: list[Value] = []
        self.functions: dict[Part, Callable[[Any], Any]] = {}
        self.given = [self._value() for _ in range(3)]
        for _ in range(60):
            kind = self.source.choice([*KINDS, *LINES])
            getattr(self, f"_{kind}", lambda kind=kind: self._line(kind))()
        for value in self.source.sample(self.values, 4):
            self._line("told", value)

    def _value(self, storage: int | None = None) -> Value:
        count = len(self.values)
        layout = Layout(torch.Size((6, 4)), (4, 1), torch.float32, torch.device("cpu"))
        self.values.append(Value(f"z{count}", count if storage is None else storage, layout))
        return self.values[-1]

    def _one(self) -> Value:
        return self.source.choice(self.values[-6:] if self.source.random() < 0.7 else self.values)

    def _call(self, func: Any, *args: Any, storage: int | None = None, writes: Any = ()) -> None:
        self.steps.append(Kernel(func, args, {}, [self._value(storage)], frozenset(writes)))

    def _kernel(self) -> None:
        func = self.source.choice([aten.add.Tensor, aten.sub.Tensor, aten.maximum.default])
        self._call(func, self._one(), self._one())

    def _view(self) -> None:
        one = self._one()
        self._call(aten.alias.default, one, storage=one.storage)

    def _write(self) -> None:
        one = self._one()
        self._call(aten.mul_.Tensor, one, 0.5, storage=one.storage, writes=[one.storage])

    def _lookup(self) -> None:
        self._call(aten.embedding.default, self._one(), IDS)

    def _draw(self) -> None:
        self._call(aten.bernoulli.p, self._one(), 0.5)

    def _unbox(self) -> None:
        """A line gets an object, through which it changes a tensor that it isn't given."""
        if self.boxes:
            box, made = self.source.choice(self.boxes), self._value()
            self._append(lambda one: one.tensor.mul_(-1.0).clone(), Effect.NONE, box, made)

    def _line(self, kind: str, value: Value | None = None) -> None:
        value = value or self._one()
        function, effect = LINES[kind]
        if kind == "boxed":
            self.boxes.append(Value(f"box{len(self.boxes)}"))
            self._append(function, effect, value, self.boxes[-1])
        else:
            storage = value.storage if kind == "changed" else None
            self._append(function, effect, value, self._value(storage))

    def _append(self, function: Any, effect: Effect, value: Value, made: Value) -> None:
        name, target = Name("x"), Name("y")
        step = Call(target, Known("function"), (name,), acts=effect)
        self.steps.append(Line(step, {name: value}, {target: made}))
        self.functions[self.steps[-1]] = function

    def told_by(self, steps: Sequence[Part]) -> list[Tensor]:
        """What the lines of these steps that act outside saw, and what became of what was given."""
        torch.manual_seed(1)
        known: dict[Value, Any] = {one: torch.randn(6, 4) for one in self.given}
        known[IDS] = IDS.constant
        told = []
        for step in steps:
            if isinstance(step, Line):
                ((value,), (made,)) = step.loads.values(), step.stores.values()
                known[made] = self.functions[step](known[value])
                if step.step.effects is Effect.HOST:
                    told.append(known[made])
            else:
                args = [known[one] if isinstance(one, Value) else one for one in step.args]
                (made,) = step.outs
                known[made] = step.func(*args)
        return [*told, *(known[one] for one in self.given)]


def runs_of(steps: Sequence[Part]) -> int:
    """How often kernels that can be compiled begin."""
    begins = zip([True, *map(is_left, steps)], map(is_left, steps), strict=False)
    return sum(before and not now for before, now in begins)


def _before_lines(steps: Sequence[Part]) -> dict[int, set[int]]:
    """What is done before each line that acts outside."""
    loud = [isinstance(one, Line) and one.step.effects is Effect.HOST for one in steps]
    return {id(steps[n]): set(map(id, steps[:n])) for n, one in enumerate(loud) if one}


@pytest.mark.parametrize("group", range(10))
def test_lines_see_the_same(group: int) -> None:
    fewer = 0
    for seed in range(40 * group, 40 * (group + 1)):
        drawn = Drawn(seed)
        steps = gathered(drawn.steps)
        assert set(map(id, steps)) == set(map(id, drawn.steps)) and len(steps) == len(drawn.steps)
        assert _before_lines(steps) == _before_lines(drawn.steps), seed
        fewer += runs_of(drawn.steps) - runs_of(steps)
        for one, other in zip(drawn.told_by(steps), drawn.told_by(drawn.steps), strict=True):
            assert torch.equal(one, other), seed
    assert fewer > 40


@pytest.mark.parametrize("group", range(10))
def test_what_nobody_reads_is_left_out(group: int) -> None:
    left_out = writes = 0
    for seed in range(40 * group, 40 * (group + 1)):
        drawn = Drawn(seed)
        wanted = drawn.told_by(drawn.steps)
        steps = simplify(list(drawn.steps))
        left = [one for one in drawn.steps if one not in steps]
        assert all(isinstance(one, Kernel) and not one.draws for one in left)
        left_out += len(left)
        writes += sum(isinstance(one, Kernel) and bool(one.writes) for one in left)
        for one, other in zip(drawn.told_by(steps), wanted, strict=True):
            assert torch.equal(one, other), seed
    assert left_out > 100 and writes > 10
