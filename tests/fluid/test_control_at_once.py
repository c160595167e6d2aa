"""Control flow of `fluid.layers` where operators run at once: as Python's, or an error."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid

layers = fluid.layers


@pytest.fixture(autouse=True)
def _at_once() -> Iterator[None]:
    with fluid.dygraph.guard():
        yield


def _number(value: float) -> Any:
    return fluid.dygraph.to_variable(np.array([value], "float32"))


@pytest.mark.parametrize("seed", range(20))
def test_loops_and_branches(seed: int) -> None:
    source = random.Random(seed)
    start, limit, step = (source.uniform(low, 8) for low in (-8, -8, 1))
    bound = source.uniform(-8, 8)

    def body(x: Any, count: Any) -> list[Any]:
        grown = layers.cond(x < _number(bound), lambda: x + step, lambda: x + 2 * step)
        return [grown, count + 1]

    x, count = layers.while_loop(
        lambda x, _count: x < _number(limit), body, [_number(start), _number(0)]
    )
    value, rounds = start, 0
    while value < limit:
        value, rounds = value + (step if value < bound else 2 * step), rounds + 1
    assert (float(x), float(count)) == (pytest.approx(value, rel=1e-5), rounds)


def test_one_of_several_runs() -> None:
    ran: list[int] = []

    def function(number: int) -> Callable[[], Any]:
        def run() -> Any:
            ran.append(number)
            return _number(number)

        return run

    yes, no = (fluid.dygraph.to_variable(np.array([one])) for one in (True, False))
    assert float(layers.case([(no, function(1)), (yes, function(2))], function(3))) == 2
    index = fluid.dygraph.to_variable(np.array([7]))
    assert float(layers.switch_case(index, {5: function(5), 7: function(7)})) == 7
    assert layers.cond(no, function(8)) is None
    assert ran == [2, 7]


def test_gradients_pass_a_loop() -> None:
    x = _number(3.0)
    x.stop_gradient = False
    (y,) = layers.while_loop(lambda y: y < _number(20.0), lambda y: [y * y], [x])
    y.backward()
    assert (float(y), x.gradient().tolist()) == (81.0, [108.0])


def _while() -> None:
    with layers.While(layers.fill_constant([1], "bool", True)).block():
        pass


def _switch() -> None:
    with layers.Switch() as switch, switch.case(layers.fill_constant([1], "bool", True)):
        pass


def _steps() -> None:
    with layers.StaticRNN().step():
        pass


@pytest.mark.parametrize("block", [_while, _switch, _steps])
def test_blocks_belong_to_programs(block: Callable[[], None]) -> None:
    with pytest.raises(NotImplementedError, match="while_loop"):
        block()
