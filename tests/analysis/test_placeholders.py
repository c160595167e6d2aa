"""Gradient operators that are said to need only the shape of an input need nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.analysis import placeholders as placeholders
from refluid.core import flags
from refluid.ops.registry import operators

layers = fluid.layers
Build = Callable[[Any], Any]


def _raw(op_type: str, **attrs: object) -> Build:
    """One of the operators that Fluid's layers no longer append."""

    def build(x: Any) -> Any:
        block = fluid.default_main_program().global_block()
        out = block.create_var(name=f"{op_type}_out", dtype="float32")
        block.append_op(type=op_type, inputs={"X": x}, outputs={"Out": out}, attrs=attrs)
        return out

    return build


def _unpadded(x: Any) -> Any:
    lengths = layers.cast(layers.fill_constant([3], "int32", 2.0), "int64")
    return layers.sequence_unpad(layers.reshape(x, [3, 2, 8]), lengths)


BUILDS: dict[str, Build] = {
    "elementwise_add_grad": lambda x: layers.elementwise_add(x, layers.scale(x, 2.0)),
    "elementwise_div_grad": lambda x: layers.elementwise_div(layers.scale(x, 2.0), layers.exp(x)),
    "elementwise_sub_grad": lambda x: layers.elementwise_sub(x, layers.scale(x, 2.0)),
    "flatten_grad": _raw("flatten", axis=1),
    "gru_grad": lambda x: layers.dynamic_gru(layers.fc(x, 12), 4),
    "im2sequence_grad": lambda x: layers.im2sequence(layers.reshape(x, [1, 1, 6, 8]), 2, 2),
    "lod_reset_grad": lambda x: layers.lod_reset(x, target_lod=[0, 4, 6]),
    "lstm_grad": lambda x: layers.dynamic_lstm(layers.fc(x, 16), 16)[0],
    "sequence_unpad_grad": _unpadded,
    "squeeze_grad": lambda x: _raw("squeeze", axes=[1])(layers.reshape(x, [6, 1, 8])),
    "transpose_grad": _raw("transpose", axis=[1, 0]),
    "unsqueeze_grad": _raw("unsqueeze", axes=[1]),
}


def test_each_has_an_example() -> None:
    """But those whose input is elsewhere, on servers."""
    shaped = {one.type for one in operators() if one.shape_only}
    assert BUILDS.keys() == shaped - {"distributed_lookup_table"}


@pytest.mark.parametrize("op_type", sorted(BUILDS))
def test_only_the_shape_is_needed(op_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    original = placeholders.placeholder

    def counted(value: Any) -> Any:
        nonlocal made
        made += 1
        return original(value)

    monkeypatch.setattr("refluid.runtime.operators.placeholder", counted)
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 2
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [6, 8], lod_level=1)
        x.stop_gradient = False
        out = BUILDS[op_type](layers.scale(x, 1.5))
        (gradient,) = fluid.gradients(layers.reduce_sum(layers.sin(out)), [x])
    values = np.random.default_rng(4).random((6, 8), np.float32)
    feed = {"x": fluid.create_lod_tensor(values, [[2, 4]], fluid.CPUPlace())}
    executor, scope = fluid.Executor(), fluid.Scope()
    executor.run(startup, scope=scope)

    def run() -> Any:
        found = executor.run(main, feed, [gradient], scope=scope, return_numpy=False)
        return np.array(found[0])

    with flags.override({"FLAGS_eager_delete_tensor_gb": -1.0}):
        expected = run()
    assert made == 0
    np.testing.assert_array_equal(run(), expected)
    assert made > 0, "the plan keeps the value"
