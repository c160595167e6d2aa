"""Operators that scripts append themselves run, where all others do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid import dygraph
from refluid.fluid.framework import Block
from refluid.fluid.layer_helper import LayerHelper

VALUE = np.array([[3.0, -4.0], [0.0, 2.0]], "float32")


class Threes(fluid.initializer.Initializer):
    """An initializer as users write them."""

    def __call__(self, var: Any, block: Any) -> Any:
        assert isinstance(block, Block)
        attrs = {"shape": list(var.shape), "dtype": int(var.dtype), "value": 3.0}
        outputs = {"Out": var}
        return block.append_op("fill_constant", outputs=outputs, attrs=attrs, stop_gradient=True)


class Doubled(fluid.initializer.Initializer):
    """An initializer that changes what another one gives."""

    def __call__(self, var: Any, block: Any) -> Any:
        fluid.initializer.Constant(2.0)(var, block)
        return block._prepend_op("scale", {"X": var}, {"Out": var}, {"scale": 2.0})


def test_a_helper_runs_operators_and_gradients_pass() -> None:
    with dygraph.guard():
        x = dygraph.to_variable(VALUE)
        x.stop_gradient = False
        helper = LayerHelper("square")
        out = helper.create_variable_for_type_inference(x.dtype)
        helper.append_op("square", {"X": x}, {"Out": out})
        np.testing.assert_array_equal(out.numpy(), VALUE**2)
        fluid.layers.reduce_sum(out).backward()
        np.testing.assert_array_equal(x.gradient(), 2 * VALUE)


@pytest.mark.parametrize("stops", [False, True])
def test_a_block_runs_operators(stops: bool) -> None:
    with dygraph.guard():
        x = dygraph.to_variable(VALUE)
        x.stop_gradient = False
        block = fluid.default_main_program().current_block()
        out = LayerHelper("relu").create_variable_for_type_inference(x.dtype)
        before = len(block.ops)
        block.append_op(type="relu", inputs={"X": [x]}, outputs={"Out": [out]}, stop_gradient=stops)
        assert len(block.ops) == before
        np.testing.assert_array_equal(out.numpy(), np.maximum(VALUE, 0))
        assert out.stop_gradient is stops


def test_initializers_of_users_are_given_a_block() -> None:
    with dygraph.guard():
        attr = fluid.ParamAttr(initializer=Threes())
        bias = fluid.ParamAttr(initializer=Doubled())
        layer = dygraph.Linear(2, 3, param_attr=attr, bias_attr=bias)
        np.testing.assert_array_equal(layer.weight.numpy(), np.full((2, 3), 3.0))
        np.testing.assert_array_equal(layer.bias.numpy(), np.full(3, 4.0))
