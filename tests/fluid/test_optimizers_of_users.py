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


class Early(fluid.optimizer.Optimizer):  # type: ignore[misc,name-defined]
    """Momentum whose velocities are made with the optimizer."""

    def __init__(self, rate: float, parameter_list: Any) -> None:
        super().__init__(learning_rate=rate, parameter_list=parameter_list)
        self.type = "momentum"
        self.helper = fluid.layer_helper.LayerHelper("early")
        for param in parameter_list:
            self._add_accumulator("velocity", param, fill_value=1.0)

    def _append_optimize_op(self, block: Any, pair: Any) -> Any:
        velocity, rate = self._get_accumulator("velocity", pair[0]), self._create_param_lr(pair)
        inputs = {"Param": pair[0], "Grad": pair[1], "Velocity": velocity, "LearningRate": rate}
        outputs = {"ParamOut": pair[0], "VelocityOut": velocity}
        return block.append_op("momentum", inputs, outputs, {"mu": 0.5, "use_nesterov": False})


def test_accumulators_may_be_made_with_the_optimizer() -> None:
    with D.guard():
        layer, x = _layer()
        own = Early(0.1, layer.parameters())
        for _ in range(2):
            own.minimize(_loss(layer, x))
            layer.clear_gradients()
        # The gradient is (3, 0): velocities (3.5, 0.5), then (4.75, 0.25).
        wanted = [1 - 0.35 - 0.475, 1 - 0.05 - 0.025]
        np.testing.assert_allclose(layer.weight.numpy().ravel(), wanted, rtol=1e-6)
        assert list(own.state_dict()) == ["linear_0.w_0_velocity_0"]
