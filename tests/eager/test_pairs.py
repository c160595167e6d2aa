"""What `minimize` returns in dygraph: pairs of parameters and gradients, made when looked at."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid import dygraph


def _grown(one: Any, other: Any) -> Any:
    one += other
    return one


LOOKS: list[Callable[[Any], Any]] = [
    list,
    tuple,
    lambda pairs: [pairs[n] for n in range(2)],
    lambda pairs: [*pairs],
    lambda pairs: pairs * 1,
    lambda pairs: 1 * pairs,
    lambda pairs: pairs.__add__([]),
    lambda pairs: [].__add__([]) + pairs,
    lambda pairs: _grown([], pairs),
    lambda pairs: _grown(pairs, []),
    lambda pairs: sorted(pairs, key=lambda pair: pair[0].name, reverse=True),
    lambda pairs: list(reversed(pairs))[::-1],
    copy.copy,
    lambda pairs: pairs[:],
]


@pytest.mark.parametrize("look", LOOKS, ids=range(len(LOOKS)))
@pytest.mark.parametrize("later", [False, True])
def test_pairs_are_those_of_the_update(look: Callable[[Any], Any], later: bool) -> None:
    """Also when the gradients were forgotten, and others came, before anybody looked."""
    with dygraph.guard():
        layer = dygraph.Linear(3, 2)
        optimizer = fluid.optimizer.SGD(0.1, parameter_list=layer.parameters())
        x = dygraph.to_variable(np.arange(6, dtype="float32").reshape(2, 3))

        def step(scale: float) -> tuple[Any, list[Any]]:
            loss = fluid.layers.reduce_sum(layer(x) * scale)
            loss.backward()
            wanted = [one.gradient() for one in layer.parameters()]
            _, pairs = optimizer.minimize(loss)
            return pairs, wanted

        pairs, wanted = step(1.0)
        if later:
            layer.clear_gradients()
            step(5.0)
        found = look(pairs)
        assert len(found) == len(pairs) == 2
        assert pairs
        for (parameter, gradient), own, value in zip(
            found, layer.parameters(), wanted, strict=True
        ):
            assert parameter is own
            assert gradient.name == own.name + "@GRAD"
            np.testing.assert_array_equal(gradient.numpy(), value)


def test_a_parameter_without_a_gradient_has_none() -> None:
    with dygraph.guard():
        used, unused = dygraph.Linear(3, 2), dygraph.Linear(3, 2)
        both = [*used.parameters(), *unused.parameters()]
        loss = fluid.layers.reduce_sum(used(dygraph.to_variable(np.ones((1, 3), "float32"))))
        loss.backward()
        _, pairs = fluid.optimizer.SGD(0.1, parameter_list=both).minimize(loss)
        assert [gradient is None for _, gradient in pairs] == [False, False, True, True]
