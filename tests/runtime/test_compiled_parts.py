"""Parts of a step that are compiled: results lie as recorded, and failures cost a half each."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule

from refluid.kernels.inductor import in_order
from refluid.runtime.recorded import compile
from refluid.runtime.recorded.compile import _ENOUGH, _alias, _ins, _runs, compile_steps
from refluid.runtime.recorded.graph import Compiled, Kernel, Layout, Part, Value

aten: Any = torch.ops.aten
TWO = torch.randn(2, 8, 4, 4)
IN_ORDER, CHANNELS_LAST = TWO.stride(), TWO.to(memory_format=torch.channels_last).stride()


class Steps:
    """Kernels written down as a recording has them, with the strides that it saw."""

    def __init__(self) -> None:
        self.kernels: list[Part] = []
        self.given: list[Value] = []
        self._count = 0

    def value(self, strides: tuple[int, ...], storage: int | None = None) -> Value:
        self._count += 1
        layout = Layout(TWO.shape, strides, torch.float32, torch.device("cpu"))
        return Value(f"z{self._count}", storage or self._count, layout)

    def give(self, strides: tuple[int, ...]) -> Value:
        self.given.append(self.value(strides))
        return self.given[-1]

    def call(self, func: Any, *args: Any, strides: tuple[int, ...] = IN_ORDER) -> Value:
        made = self.value(strides)
        self.kernels.append(Kernel(func, args, {}, [made], frozenset()))
        return made

    def write(self, func: Any, target: Value, *args: Any, **named: Any) -> Value:
        assert target.storage is not None and target.layout is not None
        made = self.value(target.layout.stride, target.storage)
        writes = frozenset([target.storage])
        self.kernels.append(Kernel(func, args, named, [made], writes))
        return made

    def end(self, *read: Value) -> None:
        """A kernel that stays, as random ones do, reads these."""
        for one in read:
            made = self.value(IN_ORDER)
            self.kernels.append(Kernel(aten.rand_like.default, (one,), {}, [made], frozenset()))


def run(
    steps: list[Part | Compiled], given: dict[Value, Tensor], read: list[Tensor] | None = None
) -> dict[Value, Tensor]:
    """All values after the steps. read: gets what random kernels read."""
    known = dict(given)
    for step in steps:
        if isinstance(step, Compiled):
            found = step.function(*(known[one] for one in step.ins))
        else:
            assert isinstance(step, Kernel)
            args = [known[one] if isinstance(one, Value) else one for one in step.args]
            named = {k: known[v] if isinstance(v, Value) else v for k, v in step.kwargs.items()}
            found = [step.func(*args, **named)]
            if read is not None and step.func is aten.rand_like.default:
                read.append(args[0].clone())
        outs = zip(step.outs, found, strict=True)
        known.update({value: one for value, one in outs if value is not None})
    return known


def chain(steps: Steps, value: Value, length: int, strides: tuple[int, ...]) -> Value:
    for _ in range(length):
        value = steps.call(aten.add.Tensor, value, 1.0, strides=strides)
    return value


def as_it_is(module: GraphModule, *laid: list[Tensor]) -> Callable[..., Any]:
    return module


def test_results_lie_as_the_kernels_laid_them() -> None:
    """The compiler takes the sum for laid out as its summand; the kernel laid it otherwise."""
    steps = Steps()
    x = steps.give(IN_ORDER)
    last = chain(steps, x, 5, CHANNELS_LAST)
    steps.end(last)
    made = compile_steps(steps.kernels, as_it_is)
    assert sum(isinstance(one, Compiled) for one in made) == 1
    known = run(made, {x: TWO})
    assert known[last].stride() == CHANNELS_LAST
    torch.testing.assert_close(known[last], TWO + 5)


def channels_last(module: GraphModule, *laid: list[Tensor]) -> Callable[..., Any]:
    """A compiler that lays all sums as it likes, as it may lay what it takes apart."""

    def lay(x: Tensor, y: Any) -> Tensor:
        return torch.add(x, y).contiguous(memory_format=torch.channels_last)

    for node in module.graph.nodes:
        if node.target is aten.add.Tensor:
            node.target = lay
    module.recompile()
    return module


def test_results_lie_as_recorded_whatever_the_compiler_chooses() -> None:
    """One image's `cat` behind an `upsample` that TorchInductor takes apart lay otherwise."""
    steps = Steps()
    x = steps.give(IN_ORDER)
    middle = chain(steps, x, 3, IN_ORDER)
    last = chain(steps, middle, 2, IN_ORDER)
    steps.end(middle, last)
    known = run(compile_steps(steps.kernels, channels_last), {x: TWO})
    assert known[middle].stride() == known[last].stride() == IN_ORDER
    torch.testing.assert_close(known[last], TWO + 5)


def test_a_part_of_larger_memory_lies_as_it_is() -> None:
    """Nothing could bring it into its strides but a copy, which would have others."""
    steps = Steps()
    x, y = steps.give(IN_ORDER), steps.give(IN_ORDER)
    both = steps.call(aten.cat.default, [chain(steps, x, 3, IN_ORDER), y], 1)
    half = steps.call(aten.slice.Tensor, both, 1, 0, 8, strides=(256, 16, 4, 1))
    steps.end(half)
    made = compile_steps(steps.kernels, as_it_is)
    assert sum(isinstance(one, Compiled) for one in made) == 1
    known = run(made, {x: TWO, y: TWO})
    assert known[half].stride() == (256, 16, 4, 1)
    torch.testing.assert_close(known[half], TWO + 3)


def test_what_is_given_can_only_lie_as_it_does() -> None:
    steps = Steps()
    x = steps.give(IN_ORDER)
    chain(steps, x, 4, IN_ORDER)
    written = steps.write(aten.relu_.default, x, x)
    assert written.layout is not None
    other = Value("other", x.storage, Layout(TWO.shape, CHANNELS_LAST, torch.float32, TWO.device))
    steps.kernels.append(Kernel(aten.mul_.Tensor, (written, 2.0), {}, [other], frozenset([1])))
    steps.end(other)
    with pytest.raises(RuntimeError, match="another order"):
        compile_steps(steps.kernels, as_it_is)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_kernels_write_over_keeps_its_order() -> None:
    steps = Steps()
    x, mask = steps.give(CHANNELS_LAST), steps.give(IN_ORDER)
    slope = chain(steps, x, 4, CHANNELS_LAST)
    last = steps.write(aten.threshold_backward.grad_input, slope, slope, mask, 0, grad_input=slope)
    steps.end(last)
    made = compile_steps(steps.kernels)
    given = {x: TWO.to(memory_format=torch.channels_last), mask: TWO}
    known = run(made, given)
    assert known[last].stride() == CHANNELS_LAST
    torch.testing.assert_close(known[last], torch.where(TWO > 0, TWO + 4, 0.0))


@pytest.mark.parametrize("seed", range(40))
def test_numbers_are_the_same_whatever_the_compiler_fails_on(
    seed: int, said: Callable[[], list[str]]
) -> None:
    source, steps = random.Random(seed), Steps()
    values = [steps.give(IN_ORDER), steps.give(IN_ORDER)]
    given = dict(zip(values, torch.randn(2, *TWO.shape), strict=True))
    for _ in range(source.randint(20, 40)):
        x, y = source.choice(values), source.choice(values)
        if source.random() < 0.2 and x not in given:
            values.append(steps.write(aten.tanh_.default, x, x))
        elif source.random() < 0.1:
            steps.end(x)
        else:
            func = source.choice([aten.add.Tensor, aten.mul.Tensor, aten.maximum.default])
            values.append(steps.call(func, x, y))
    steps.end(*source.sample(values, 5))
    failing = source.choice([100, source.randint(3, 25)])

    failed = list[str]()
    reasons = (f"more than {failing}", "results share memory, and may lie in another order")

    def fail(module: GraphModule, *laid: list[Tensor]) -> Callable[..., Any]:
        if sum(node.target is not in_order() for node in module.graph.nodes) > failing:
            failed.append(reasons[0])
            raise NotImplementedError(reasons[0])
        return module

    wanted, found = list[Tensor](), list[Tensor]()
    run([*steps.kernels], {value: one.clone() for value, one in given.items()}, wanted)
    try:
        made = compile_steps(steps.kernels, fail)
    except (NotImplementedError, RuntimeError) as error:
        assert str(error) in (reasons if failing < 10 else reasons[1:])
        return
    runs = (run for run in _runs(steps.kernels) if len(run) >= _ENOUGH)
    none = all(_alias(run, _ins(run)) for run in runs)  # which are left as they are
    assert none or any(isinstance(one, Compiled) for one in made)
    told = said()
    assert all(one.endswith(tuple(f"compiled: {why}" for why in reasons)) for one in told)
    assert told or not failed
    run(made, {value: one.clone() for value, one in given.items()}, found)
    for one, its in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, its, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("seed", range(24))
def test_equal_parts_of_long_runs_are_compiled_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that differ in an operand, a number or an operator alone are others."""
    monkeypatch.setattr(compile, "LONG", 8)
    monkeypatch.setattr(compile, "_CUT", frozenset({"neg"}))
    source, steps = random.Random(seed), Steps()
    x, y = given = [steps.give(IN_ORDER), steps.give(IN_ORDER)]
    functions = [aten.add.Tensor, aten.mul.Tensor, aten.sub.Tensor]
    body = [(source.choice(functions), source.choice([1.0, 0.5])) for _ in range(5)]
    values, times = [x], source.randint(4, 9)
    for _ in range(times):
        value = steps.call(aten.neg.default, values[-1])
        changed = source.randrange(5) if source.random() < 0.4 else -1
        for number, (func, scale) in enumerate(body):
            if number == changed:
                func, scale = source.choice(functions), source.choice([scale, 0.25])
            value = steps.call(func, *source.choice([(value, y), (value, value), (value, scale)]))
        values.append(value)
    steps.end(*values[1:])
    graphs: list[str] = []

    def noted(module: GraphModule, *laid: list[Tensor]) -> Callable[..., Any]:
        graphs.append(module.code)
        return module

    tensors = dict(zip(given, torch.randn(2, *TWO.shape), strict=True))
    wanted, found = list[Tensor](), list[Tensor]()
    run([*steps.kernels], dict(tensors), wanted)
    made = compile_steps(steps.kernels, noted)
    run(made, dict(tensors), found)
    for one, its in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, its, rtol=0, atol=0, equal_nan=True)
    assert sum(isinstance(one, Compiled) for one in made) == times
    assert len(graphs) == len(set(graphs)) <= times


def test_what_repeats_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile, "LONG", 8)
    monkeypatch.setattr(compile, "_CUT", frozenset({"neg"}))
    steps, graphs = Steps(), list[GraphModule]()
    value = steps.give(IN_ORDER)
    for _ in range(6):
        value = chain(steps, steps.call(aten.neg.default, value), 5, IN_ORDER)
    steps.end(value)
    made = compile_steps(steps.kernels, lambda module, *laid: graphs.append(module) or module)
    assert sum(isinstance(one, Compiled) for one in made) == 6
    assert len(graphs) == 1
