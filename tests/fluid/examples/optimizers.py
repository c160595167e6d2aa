"""The documentation's examples of optimizers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from refluid import fluid
from tests.fluid.examples.feeds import Build

L, opt = fluid.layers, fluid.optimizer
Minimize = Callable[[fluid.Variable], Any]


def _with(make: Callable[[], Any]) -> Minimize:
    return lambda loss: make().minimize(loss)


def _housing(minimize: Minimize, *, names: str = "xy", y_first: bool = False) -> None:
    shapes = {names[0]: 13, names[1]: 1}
    order = reversed(shapes) if y_first else shapes
    fed = {name: L.data(name=name, shape=[shapes[name]], dtype="float32") for name in order}
    predict = L.fc(input=fed[names[0]], size=1, act=None)
    cost = L.square_error_cost(input=predict, label=fed[names[1]])
    minimize(L.mean(cost))


def _line(minimize: Minimize) -> None:
    data = fluid.data(name="X", shape=[None, 1], dtype="float32")
    minimize(L.mean(L.fc(input=data, size=10)))


def _image(minimize: Minimize, name: str, width: int, size: int) -> None:
    data = fluid.data(name=name, shape=[None, width], dtype="float32")
    minimize(L.reduce_mean(L.fc(data, size=size)))


def _adagrad() -> None:
    inp = fluid.data(name="inp", shape=[2, 2])
    loss = L.reduce_sum(L.fc(inp, size=3))
    opt.AdagradOptimizer(learning_rate=0.2).minimize(loss)


def _averaged(loss: fluid.Variable) -> None:
    opt.Momentum(learning_rate=0.2, momentum=0.1).minimize(loss)
    opt.ModelAverage(0.15, min_average_window=10000, max_average_window=12500)


def _recompute(how: str) -> None:
    x = L.data(name="x", shape=[32], dtype="float32")
    y = L.data(name="y", shape=[1], dtype="int64")
    hidden = L.fc(input=x, size=128)
    prediction = L.fc(input=[hidden], size=2, act="softmax")
    cost = L.reduce_mean(L.cross_entropy(input=prediction, label=y))
    adam = opt.RecomputeOptimizer(opt.Adam(learning_rate=0.01))
    adam._set_checkpoints([hidden, prediction])
    if how == "minimize":
        adam.minimize(cost)
        return
    pairs = adam.backward(cost, startup_program=None, parameter_list=None, no_grad_set=None)
    if how == "apply_gradients":
        adam.apply_gradients(pairs)
    if how == "apply_optimize":
        adam.apply_optimize(cost, startup_program=None, params_grads=pairs)


def _clip(clip: Any) -> None:
    data = fluid.data(name="x", shape=[None, 2], dtype="float32")
    loss = L.mean(L.fc(input=data, size=3, act="relu"))
    opt.SGDOptimizer(learning_rate=0.1, grad_clip=clip).minimize(loss)


def _merge_rows() -> None:
    block = fluid.default_main_program().global_block()
    kind = fluid.core.VarDesc.VarType.SELECTED_ROWS
    var = block.create_var(name="X", dtype="float32", persistable=True, type=kind)
    L.merge_selected_rows(var)


EXAMPLES: dict[str, Build] = {
    "clip.GradientClipByGlobalNorm-0": lambda: _clip(fluid.clip.GradientClipByGlobalNorm(1.0)),
    "clip.GradientClipByValue-0": lambda: _clip(fluid.clip.GradientClipByValue(min=-1, max=1)),
    "layers.merge_selected_rows-0": _merge_rows,
    "optimizer.Adadelta-0": lambda: _image(
        _with(lambda: opt.Adadelta(0.0003, epsilon=1.0e-6, rho=0.95)), "image", 28, 10
    ),
    "optimizer.AdagradOptimizer.minimize-0": _adagrad,
    "optimizer.Adam-0": lambda: _housing(_with(lambda: opt.AdamOptimizer(0.01)), y_first=True),
    "optimizer.AdamOptimizer.minimize-0": lambda: _housing(
        _with(lambda: opt.AdamOptimizer(learning_rate=0.2)), names="XY"
    ),
    "optimizer.Adamax-0": lambda: _line(_with(lambda: opt.Adamax(learning_rate=0.2))),
    "optimizer.DecayedAdagrad-0": lambda: _image(
        _with(lambda: opt.DecayedAdagrad(learning_rate=0.2)), "x", 10, 100
    ),
    "optimizer.Dpsgd-0": lambda: _line(
        _with(lambda: opt.Dpsgd(learning_rate=0.01, clip=10.0, batch_size=16.0, sigma=1.0))
    ),
    "optimizer.Ftrl-0": lambda: _housing(_with(lambda: opt.Ftrl(learning_rate=0.1))),
    "optimizer.LambOptimizer.minimize-0": lambda: _housing(
        _with(
            lambda: opt.LambOptimizer(
                learning_rate=0.2, exclude_from_weight_decay_fn=lambda param: False
            )
        ),
        names="XY",
    ),
    "optimizer.ModelAverage.apply-0": lambda: _line(_averaged),
    "optimizer.Momentum-0": lambda: _housing(_with(lambda: opt.Momentum(0.001, 0.9))),
    "optimizer.RecomputeOptimizer-0": functools.partial(_recompute, "minimize"),
    "optimizer.RecomputeOptimizer.apply_gradients-0": functools.partial(
        _recompute, "apply_gradients"
    ),
    "optimizer.RecomputeOptimizer.apply_optimize-0": functools.partial(
        _recompute, "apply_optimize"
    ),
    "optimizer.RecomputeOptimizer.backward-0": functools.partial(_recompute, "backward"),
    "optimizer.SGD-0": lambda: _housing(_with(lambda: opt.SGD(0.001))),
}
