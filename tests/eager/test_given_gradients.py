"""Optimizers that are given gradients with their parameters, where operators run at once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.fluid import dygraph
from refluid.paddle import optimizer as paddle2
from refluid.paddle.nn import ClipGradByGlobalNorm
from tests.eager.test_known_updates import OPTIMIZERS

X = np.arange(6, dtype="float32").reshape(2, 3)


def _loss(layer: Any) -> Any:
    loss = fluid.layers.reduce_sum(layer(dygraph.to_variable(X)))
    loss.backward()
    return loss


def _trained(make: Any, clip: Any, *, by_pairs: bool) -> list[np.ndarray]:
    with dygraph.guard():
        layer = dygraph.Linear(3, 2)
        for n, one in enumerate(layer.parameters()):
            one.set_value(np.full(one.shape, 0.1 * (n + 1), "float32"))
        optimizer = make(layer.parameters(), clip)
        for _ in range(4):
            loss = _loss(layer)
            if by_pairs:
                pairs = optimizer.backward(loss)
                assert optimizer.apply_optimize(loss, None, pairs[:1]) == []
                assert optimizer.apply_gradients(pairs[1:]) == []
            else:
                optimizer.minimize(loss, None, layer.parameters()[:1])
                optimizer.minimize(loss, None, layer.parameters()[1:])
            layer.clear_gradients()
        return [one.numpy() for one in layer.parameters()]


@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize("clip", [None, fluid.clip.GradientClipByGlobalNorm(0.1)])
def test_pairs_of_backward_are_updated_as_by_minimize(make: Any, clip: Any) -> None:
    found, wanted = (_trained(make, clip, by_pairs=way) for way in (True, False))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_backward_gives_the_gradients_that_are_there_and_computes_none() -> None:
    """As Paddle 2.6.2, where it was tried."""
    with dygraph.guard():
        layer, other = dygraph.Linear(3, 2), dygraph.Linear(3, 2)
        optimizer = fluid.optimizer.SGD(
            0.1, parameter_list=[*layer.parameters(), *other.parameters()]
        )
        loss = fluid.layers.reduce_sum(layer(dygraph.to_variable(X)))
        assert optimizer.backward(loss) == []
        loss.backward()
        pairs = optimizer.backward(loss, parameter_list=[layer.weight, other.weight])
        assert [one.name for one, _ in pairs] == [layer.weight.name]
        np.testing.assert_array_equal(pairs[0][1].numpy(), [[3, 3], [5, 5], [7, 7]])


def test_other_gradients_and_other_parameters_than_its_own() -> None:
    with dygraph.guard():
        layer, other = dygraph.Linear(3, 2), dygraph.Linear(3, 2)
        optimizer = fluid.optimizer.SGD(0.5, parameter_list=layer.parameters())
        _loss(layer)
        before, own = other.bias.numpy(), layer.weight.numpy()
        gradient = dygraph.to_variable(np.array([1, 2], "float32"))
        optimizer.apply_gradients([(other.bias, gradient), (layer.weight, None)])
        np.testing.assert_allclose(other.bias.numpy(), before - [0.5, 1])
        np.testing.assert_array_equal(layer.weight.numpy(), own)
        np.testing.assert_array_equal(layer.weight.gradient(), [[3, 3], [5, 5], [7, 7]])
        np.testing.assert_array_equal(gradient.numpy(), [1, 2])


def test_a_gradient_of_another_shape_is_refused() -> None:
    with dygraph.guard():
        layer = dygraph.Linear(3, 2)
        optimizer = fluid.optimizer.SGD(0.5, parameter_list=layer.parameters())
        gradient = dygraph.to_variable(np.ones(1, "float32"))
        with pytest.raises(EnforceNotMet, match=rf"'{layer.bias.name}' has shape \[2\].*\[1\]"):
            optimizer.apply_gradients([(layer.bias, gradient)])


def _half_trained(*, by_pairs: bool) -> list[np.ndarray]:
    with dygraph.guard():
        layers = [dygraph.Linear(3, 2, dtype=dtype) for dtype in ("float16", "float32")]
        params = [one for layer in layers for one in layer.parameters()]
        trained = paddle2.Momentum(0.1, 0.9, params, grad_clip=ClipGradByGlobalNorm(0.5))
        trained.masters = paddle2.updating.MasterWeights()
        for one in params:
            one.set_value(np.full(one.shape, 0.3, one.numpy().dtype))
        for step in range(5):
            for one in params:
                one.held.grad = one.held.detach() * (0.01 * (step + 1))
            if by_pairs:
                trained.apply_gradients(trained.backward(None))
            else:
                trained.step()
            trained.clear_grad()
        assert len(trained.masters.state()) == 2
        return [one.numpy() for one in params]


def test_half_parameters_are_updated_in_float32() -> None:
    found, wanted = _half_trained(by_pairs=True), _half_trained(by_pairs=False)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_parameters_that_can_be_gone_through_once_are_updated_in_each_step() -> None:
    with dygraph.guard():
        layer = dygraph.Linear(3, 2)
        sgd = fluid.optimizer.SGD(0.1, parameter_list=(one for one in layer.parameters()))
        seen = [layer.weight.numpy()]
        for _ in range(3):
            sgd.minimize(_loss(layer))
            layer.clear_gradients()
            seen.append(layer.weight.numpy())
    for before, after in pairwise(seen):
        np.testing.assert_allclose(before - after, 0.1 * X.sum(0)[:, None] * [[1, 1]], rtol=1e-4)


def test_what_is_no_list_of_parameters_or_no_gradient_is_refused() -> None:
    with dygraph.guard():
        layer = dygraph.Linear(3, 2)
        for given in (layer, layer.parameters):
            with pytest.raises(TypeError, match="should be a list of parameters or their names"):
                fluid.optimizer.SGD(0.1, parameter_list=given)  # type: ignore[arg-type]
        sgd = fluid.optimizer.SGD(0.1, parameter_list=layer.parameters())
        with pytest.raises(TypeError, match="should be a variable, not of ndarray"):
            sgd.apply_gradients([(layer.weight, np.ones([3, 2], "float32"))])  # type: ignore[list-item]
