"""Optimizers that users derive, which override a step of `minimize`, in dygraph."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid import fluid

D, L = fluid.dygraph, fluid.layers
SGD, Adam = fluid.optimizer.SGDOptimizer, fluid.optimizer.AdamOptimizer


class Decaying(Adam):  # type: ignore[misc,valid-type]
    """Weights are decayed after the update, as scripts around ERNIE do."""

    def apply_optimize(self, loss: Any, startup_program: Any, params_grads: Any) -> Any:
        super().apply_optimize(loss, startup_program, params_grads)
        for param, _ in params_grads:
            L.assign(param * (1.0 - self.current_step_lr()), param)


class Scaling(SGD):  # type: ignore[misc,valid-type]
    """Gradients are changed before the update."""

    def backward(self, loss: Any, *given: Any) -> Any:
        return [(param, grad * 10.0) for param, grad in super().backward(loss, *given)]


def _layer() -> tuple[Any, Any]:
    layer = D.Linear(2, 1, bias_attr=False)
    layer.weight.set_value(np.ones((2, 1), "float32"))
    return layer, D.to_variable(np.array([[3.0, 0.0]], "float32"))


def _loss(layer: Any, x: Any) -> Any:
    loss = L.reduce_sum(layer(x))
    loss.backward()
    return loss


def test_apply_optimize_is_called_at_each_step() -> None:
    with D.guard():
        layer, x = _layer()
        adam = Decaying(0.5, parameter_list=layer.parameters())
        for step in (1, 2, 3):
            loss = _loss(layer, x)
            adam.minimize(loss)
            layer.clear_gradients()
            # The second weight has no slope: it is only decayed.
            assert np.allclose(layer.weight.numpy()[1], 0.5**step)
        assert layer.weight.numpy()[0] < 0


def test_backward_may_change_gradients() -> None:
    with D.guard():
        layer, x = _layer()
        sgd = Scaling(0.1, parameter_list=layer.parameters())
        _, pairs = sgd.minimize(_loss(layer, x))
        assert np.allclose(layer.weight.numpy(), [[1 - 0.1 * 30], [1]])
        assert [grad.numpy().tolist() for _, grad in pairs] == [[[30.0], [0.0]]]
        assert np.allclose(layer.weight.gradient(), [[3], [0]])


def test_gradients_of_rows() -> None:
    with D.guard():
        table = D.Embedding([5, 2], is_sparse=True)
        before = table.weight.numpy()
        sgd = SGD(1.0, parameter_list=table.parameters())
        loss = _loss(table, D.to_variable(np.array([1, 3])))
        sgd.apply_gradients(sgd.backward(loss))
        moved = before - table.weight.numpy()
        assert np.allclose(moved, np.isin(np.arange(5), [1, 3])[:, None] * np.ones(2))
