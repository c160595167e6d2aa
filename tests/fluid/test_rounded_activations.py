"""Operators without weights read rounded values, in training and where nothing is learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.fluid import core
from refluid.fluid.contrib.slim.quantization import AddQuantDequantPass
from refluid.fluid.framework import IrGraph

_ROUNDED = "fake_quantize_dequantize_moving_average_abs_max"
X = np.random.RandomState(3).uniform(-1, 1, (4, 2, 4, 4)).astype("float32")


def _network(rate: float = 0.1) -> tuple[Any, Any, Any]:
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 5
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        x = fluid.data("x", [None, 2, 4, 4])
        hidden = fluid.layers.conv2d(x, 2, 1)
        pooled = fluid.layers.pool2d(hidden, 2, "avg", 2)
        with fluid.name_scope("skip_quant"):
            twice = fluid.layers.elementwise_add(pooled, pooled)
        out = fluid.layers.elementwise_add(twice, pooled)
        loss = fluid.layers.mean(fluid.layers.square(out))
        fluid.optimizer.SGD(rate).minimize(loss)
    return main, startup, loss


def _changed(main: Any, scope: Any, **options: Any) -> Any:
    change = AddQuantDequantPass(scope, fluid.CPUPlace(), **options)
    return change.apply(IrGraph(core.Graph(main.desc))).to_program()


def test_each_value_is_rounded_once_and_gradients_read_it_too() -> None:
    main, _, _ = _network()
    ops = _changed(main, fluid.Scope()).global_block().ops
    rounded = {op.input("X")[0] for op in ops if op.type == _ROUNDED}
    (pool,) = [op for op in ops if op.type == "pool2d"]
    skipped, summed = [op for op in ops if op.type == "elementwise_add"][-2:]
    assert rounded == {"conv2d_0.tmp_1", "pool2d_0.tmp_0", skipped.output("Out")[0]}
    assert pool.input("X") == ["conv2d_0.tmp_1.quant_dequant"]
    assert skipped.input("X") == ["pool2d_0.tmp_0"]
    assert summed.input("Y") == ["pool2d_0.tmp_0.quant_dequant"]
    (gradient,) = [op for op in ops if op.type == "pool2d_grad"]
    assert gradient.input("X") == ["conv2d_0.tmp_1.quant_dequant"]
    (bias,) = [op for op in ops if op.type == "elementwise_add"][:1]
    assert bias.input("X") == ["conv2d_0.tmp_0"]  # it reads a parameter


def _losses(rate: float, steps: int, *, changed: bool) -> list[float]:
    scope, exe = fluid.Scope(), fluid.Executor()
    main, startup, loss = _network(rate)
    with fluid.scope_guard(scope):
        exe.run(startup)
        program = _changed(main, scope) if changed else main
        return [exe.run(program, {"x": X}, [loss.name])[0].item() for _ in range(steps)]


def test_it_trains_and_comes_near_what_it_stands_for() -> None:
    trained = _losses(0.1, 10, changed=True)
    assert trained[-1] < trained[0] / 2
    (exact,) = _losses(0.0, 1, changed=False)
    rounded = _losses(0.0, 80, changed=True)  # the scales follow the greatest values
    assert rounded[-1] != exact
    np.testing.assert_allclose(rounded[-1], exact, rtol=0.03)


def test_types_that_cant_be_are_refused() -> None:
    with pytest.raises(ValueError, match="'conv2d'"):
        AddQuantDequantPass(quantizable_op_type=["conv2d", "pool2d"])
    full = AddQuantDequantPass(is_full_quantized=True)
    assert {"softmax", "swish"} <= set(full._types)
