"""Batch normalisation of channels with one element: Fluid leaves them as they are.

As paddle 2.6.2 has it too: Out is X, its gradient passes, Scale and Bias learn nothing and the
running statistics stay. (After the gradient of inplace_abn its Y holds X.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid

L = fluid.layers
X = np.array([1.0, -2.0, 3.0], "float32")
WEIGHTS = np.array([10.0, 20.0, 30.0], "float32")
SHAPES = {"NCHW": (1, 3, 1, 1), "NHWC": (1, 1, 1, 3), "flat": (1, 3)}


def _norm(x: Any, kind: str, layout: str) -> Any:
    attrs = {"param_attr": fluid.ParamAttr(name="s", initializer=fluid.initializer.Constant(2.0))}
    attrs |= {"bias_attr": fluid.ParamAttr(name="b", initializer=fluid.initializer.Constant(0.5))}
    attrs |= {"moving_mean_name": "m", "moving_variance_name": "v"}
    form = "NCHW" if layout == "flat" else layout
    if kind == "inplace_abn":
        return L.inplace_abn(x, act="leaky_relu", act_alpha=0.5, data_layout=form, **attrs)
    return L.batch_norm(x, data_layout=form, **attrs)


@pytest.mark.parametrize("layout", SHAPES)
@pytest.mark.parametrize("kind", ["batch_norm", "inplace_abn"])
def test_one_element_per_channel(kind: str, layout: str) -> None:
    shape = SHAPES[layout]
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, weights = fluid.data("x", [None, *shape[1:]]), fluid.data("w", [None, *shape[1:]])
        x.stop_gradient = False
        y = _norm(x, kind, layout)
        loss = L.reduce_sum(y * weights)
        grads = fluid.gradients(loss, [x, *(main.global_block().var(n) for n in ("s", "b"))])
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    feed = {"x": X.reshape(shape), "w": WEIGHTS.reshape(shape)}
    slope = np.where(X < 0, 0.5, 1.0) if kind == "inplace_abn" else np.ones(3)
    total = (slope * X * WEIGHTS).sum()
    wanted = [total, X, slope * WEIGHTS, np.zeros(3), np.zeros(3), np.zeros(3), np.ones(3)]
    for _ in range(6):  # the later ones recorded
        found = exe.run(main, feed, [loss, y, *grads, "m", "v"], scope=scope)
        for one, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.ravel(), want, rtol=1e-6)


def test_two_elements_are_normalised() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        y = L.batch_norm(fluid.data("x", [None, 3]))
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    for rows in (1, 2, 1, 2, 3, 1):
        batch = np.arange(3.0 * rows, dtype="float32").reshape(rows, 3)
        (found,) = exe.run(main, {"x": batch}, [y], scope=scope)
        wanted = batch - batch.mean(0) if rows > 1 else batch
        wanted = wanted / batch.std(0) if rows > 1 else wanted
        np.testing.assert_allclose(found, wanted, rtol=1e-4)


@pytest.mark.parametrize("rows", [1, 2])
def test_with_running_statistics_the_fused_gradient_is_the_same(rows: int) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        y = L.batch_norm(fluid.data("x", [None, 3]), act="relu", use_global_stats=True)
        loss = L.mean(L.square(y))
        fluid.optimizer.SGD(0.0).minimize(loss)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    build = fluid.BuildStrategy()
    build.fuse_bn_act_ops = True
    fused = fluid.CompiledProgram(main).with_data_parallel(
        loss.name, build_strategy=build, places=fluid.cpu_places(1)
    )
    feed, bias = {"x": np.tile(X, (rows, 1))}, ["batch_norm_0.b_0@GRAD"]
    plain, other = (exe.run(one, feed, bias, scope=scope)[0] for one in (main, fused))
    np.testing.assert_allclose(plain, np.maximum(X, 0) * 2 / 3, rtol=1e-4)
    np.testing.assert_allclose(other, plain, rtol=1e-6)
