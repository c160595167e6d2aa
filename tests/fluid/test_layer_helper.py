"""Layers that users write with a `LayerHelper`, in programs and where operators run at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid import fluid
from refluid.fluid.layer_helper import LayerHelper

D, L = fluid.dygraph, fluid.layers
X = np.array([[1.0, -2.0]], "float32")


def doubled(input: Any, act: str | None = None, stops: bool = False) -> Any:
    helper = LayerHelper("doubled", **locals())
    out = helper.create_variable_for_type_inference(helper.input_dtype())
    helper.append_op(
        type="scale",
        inputs={"X": input, "ScaleTensor": None},
        outputs={"Out": [out]},
        attrs={"scale": 2.0, "bias": None},
        stop_gradient=stops,
    )
    return helper.append_activation(out)


def test_append_op_runs_at_once() -> None:
    with D.guard():
        x = D.to_variable(X)
        x.stop_gradient = False
        out = doubled(x, act="relu")
        assert out.numpy().tolist() == [[2.0, 0.0]]
        L.reduce_sum(out).backward()
        assert x.gradient().tolist() == [[2.0, 0.0]]
        assert doubled(x, stops=True).stop_gradient


def test_append_op_appends_to_the_program() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        out = doubled(fluid.data("x", [1, 2]), act="relu")
        (found,) = fluid.Executor().run(feed={"x": X}, fetch_list=[out])
        assert found.tolist() == [[2.0, 0.0]]
        assert doubled(out, stops=True).stop_gradient
