"""Results of operators at once stay as they are when an optimizer overwrites the parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid import dygraph, layers

VIEWS = {
    "assign": layers.assign,
    "reshape": lambda w: layers.reshape(w, [12]),
    "transpose": lambda w: layers.transpose(w, [1, 0]),
    "slice": lambda w: layers.slice(w, [0], [0], [2]),
    "subscript": lambda w: w[0],
    "split": lambda w: layers.split(w, 2, 1)[0],
    "unstack": lambda w: layers.unstack(w)[0],
    "cast": lambda w: layers.cast(w, "float32"),
    "dropout": lambda w: layers.dropout(w, 0.0, dropout_implementation="upscale_in_train"),
}


def _step(layer: Any, optimizer: Any) -> None:
    x = dygraph.to_variable(np.ones((2, 3), "float32"))
    loss = layers.reduce_mean(layers.square(layer(x) + 1))
    loss.backward()
    optimizer.minimize(loss)
    layer.clear_gradients()


@pytest.mark.parametrize("name", VIEWS)
def test_what_was_made_of_a_parameter_keeps_its_values(name: str) -> None:
    make: Callable[[Any], Any] = VIEWS[name]
    with dygraph.guard(fluid.CPUPlace()):
        layer = dygraph.Linear(3, 4)
        optimizer = fluid.optimizer.SGD(0.1, parameter_list=layer.parameters())
        for _ in range(2):  # a call that is new, and one that is known
            made = make(layer.weight)
            with dygraph.no_grad():
                apart = make(layer.weight)
            want, weight = made.numpy().copy(), layer.weight.numpy().copy()
            _step(layer, optimizer)
            assert np.abs(layer.weight.numpy() - weight).max() > 0
            np.testing.assert_array_equal(made.numpy(), want)
            np.testing.assert_array_equal(apart.numpy(), want)
            layers.reduce_sum(made).backward()
            assert np.abs(layer.weight.gradient()).max() == 1
            layer.clear_gradients()


def test_a_parameter_that_was_assigned_is_one_of_its_own() -> None:
    """As Parakeet begins the norms of weights, and reinforcement learning copies networks."""
    with dygraph.guard(fluid.CPUPlace()):
        layer, other = dygraph.Linear(3, 4), dygraph.Linear(3, 4)
        optimizer = fluid.optimizer.Adam(0.1, parameter_list=layer.parameters())
        for _ in range(2):
            norms = layers.sqrt(layers.reduce_sum(layers.square(layer.weight), dim=0))
            with dygraph.no_grad():
                layers.assign(layer.weight, other.weight)
                layers.assign(norms, layer.bias)
            want = other.weight.numpy().copy()
            np.testing.assert_array_equal(layer.bias.numpy(), norms.numpy())
            for _ in range(2):
                _step(layer, optimizer)
            np.testing.assert_array_equal(other.weight.numpy(), want)
