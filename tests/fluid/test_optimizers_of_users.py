"""Optimizers that users derive, which override a step of `minimize`, in dygraph."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid import fluid
from refluid.fluid.layer_helper import LayerHelper

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


class Inert(fluid.optimizer.Optimizer):  # type: ignore[misc,name-defined]
    """Momentum whose accumulators are made where the optimizer is, as some do since Paddle 2."""

    def __init__(self, rate: float, parameters: Any) -> None:
        super().__init__(rate, parameters)
        self.helper = LayerHelper("inert")
        self.made = [self._add_accumulator("speed", one, fill_value=0.5) for one in parameters]

    def _append_optimize_op(self, block: Any, param_and_grad: Any) -> Any:
        param, grad = param_and_grad
        speed = self._get_accumulator("speed", param)
        inputs = {"Param": param, "Grad": grad, "Velocity": speed * 1.0}
        inputs["LearningRate"] = self._create_param_lr(param_and_grad)
        outputs = {"ParamOut": param, "VelocityOut": speed}
        return block.append_op("momentum", inputs, outputs, {"mu": 0.5})


def test_accumulators_asked_for_before_the_first_step() -> None:
    with D.guard():
        layer, x = _layer()
        inert = Inert(0.1, layer.parameters())
        name = f"{layer.weight.name}_speed_0"
        assert inert.made[0].numpy().tolist() == [[0.5], [0.5]]
        assert list(inert.state_dict()) == [name]
        weight, speed = np.ones((2, 1)), np.full((2, 1), 0.5)
        for _ in range(3):
            inert.minimize(_loss(layer, x))
            layer.clear_gradients()
            speed = speed * 0.5 + [[3], [0]]
            weight = weight - 0.1 * speed
            assert np.allclose(layer.weight.numpy(), weight)
            assert np.allclose(inert._get_accumulator("speed", layer.weight).numpy(), speed)
        kept = inert.state_dict()
        again = Inert(0.1, layer.parameters())
        again.set_dict(kept)
        again.minimize(_loss(layer, x))
        assert np.allclose(again.state_dict()[name].numpy(), speed * 0.5 + [[3], [0]])


def test_accumulators_asked_for_of_a_program() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        ones = fluid.ParamAttr("w", initializer=fluid.initializer.Constant(1.0))
        x = fluid.data("x", [1, 2])
        loss = L.reduce_sum(L.fc(x, 1, param_attr=ones, bias_attr=False))
        inert = Inert(0.1, fluid.default_main_program().global_block().all_parameters())
        inert.minimize(loss)
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        for _ in range(2):
            exe.run(feed={"x": np.array([[3.0, 0.0]], "float32")}, fetch_list=[loss])
        found = np.array(fluid.global_scope().find_var("w").get_tensor())
        assert np.allclose(found, [[1 - 0.1 * (3.25 + 4.625)], [1 - 0.1 * (0.25 + 0.125)]])
