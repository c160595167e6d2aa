"""A model with two parameters whose gradients are known, to be trained by any optimizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import refluid.fluid as fluid

Array = np.ndarray[Any, np.dtype[np.float32]]
START = {
    "first": np.array([[0.5], [-1.0], [2.0]], "float32"),
    "second": np.array([[-0.25], [0.75], [1.5]], "float32"),
}
WEIGHT = {"first": 1.0, "second": 3.0}


def batches(steps: int) -> list[Array]:
    """Inputs of shape (4, 3)."""
    return list(np.random.RandomState(7).randn(steps, 4, 3).astype("float32"))


def gradient(name: str, x: Array) -> Array:
    """The loss is linear in each parameter."""
    return (WEIGHT[name] * x.mean(0, keepdims=True).T).astype("float32")


def build(attributes: dict[str, dict[str, Any]]) -> Any:
    """loss = mean(x @ first) + 3 * mean(x @ second)."""
    x = fluid.data("x", [-1, 3])
    parts = []
    for name in START:
        attr = fluid.ParamAttr(name=name, **attributes.get(name, {}))
        part = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr=attr, bias_attr=False))
        parts.append(part * WEIGHT[name])
    return parts[0] + parts[1]


def train(
    minimize: Callable[[Any], Any],
    steps: int = 3,
    fetch: Sequence[Any] = (),
    **attributes: dict[str, Any],
) -> list[dict[str, Array]]:
    """Values of the parameters (and of `fetch`) after each step.

    minimize: given the loss, appends the optimizer; what it returns is fetched as `rate`.
    attributes: ParamAttr arguments by parameter name.
    """
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        rate = minimize(build(attributes))
    exe = fluid.Executor(fluid.CPUPlace())
    history = []
    with fluid.scope_guard(scope):
        exe.run(startup)
        for name, value in START.items():
            scope.find_var(name).get_tensor().set(value, fluid.CPUPlace())
        for x in batches(steps):
            rates = exe.run(main, {"x": x}, [rate] if rate is not None else [])
            values = {name: np.array(scope.find_var(name).get_tensor()) for name in START}
            history.append(values | ({"rate": rates[0]} if rates else {}))
    return history
