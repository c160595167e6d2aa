"""Optimizers, regularizers and clips against NumPy, three steps each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from tests.fluid.training_steps import START, Array, batches, gradient, train

Change = Callable[[dict[str, Array], dict[str, Array]], dict[str, Array]]
Update = Callable[[Array, Array, dict[str, Any]], Array]
RATE = 0.1
L2 = fluid.regularizer.L2Decay


def sgd(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
    return param - RATE * grad


def momentum(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
    kept["v"] = 0.9 * kept.get("v", 0) + grad
    return param - RATE * kept["v"]


def nesterov(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
    kept["v"] = 0.9 * kept.get("v", 0) + grad
    return param - RATE * (grad + 0.9 * kept["v"])


def adam(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
    kept["t"] = kept.get("t", 0) + 1
    kept["m"] = 0.8 * kept.get("m", 0) + 0.2 * grad
    kept["v"] = 0.95 * kept.get("v", 0) + 0.05 * grad**2
    rate = RATE * np.sqrt(1 - 0.95 ** kept["t"]) / (1 - 0.8 ** kept["t"])
    return param - rate * kept["m"] / (np.sqrt(kept["v"]) + 1e-6)


def reference(update: Update, change: Change | None, steps: int = 3) -> list[dict[str, Array]]:
    """Values after each step of an optimizer; `change` makes new gradients of all gradients."""
    params = {name: value.astype("float64") for name, value in START.items()}
    kept: dict[str, dict[str, Any]] = {name: {} for name in params}
    history = []
    for x in batches(steps):
        grads = {name: gradient(name, x) for name in params}
        grads = change(params, grads) if change else grads
        params = {name: update(params[name], grads[name], kept[name]) for name in params}
        history.append(dict(params))
    return history


def compare(history: list[dict[str, Array]], wanted: list[dict[str, Array]]) -> None:
    for values, step in zip(history, wanted, strict=True):
        for name in START:
            np.testing.assert_allclose(values[name], step[name], rtol=2e-5, atol=1e-6)


def minimizing(make: Callable[..., Any], **options: Any) -> Callable[[Any], None]:
    def minimize(loss: Any) -> None:
        make(**options).minimize(loss)

    return minimize


ADAM = {"learning_rate": RATE, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-6}
OPTIMIZERS = {
    "sgd": (sgd, fluid.optimizer.SGD, {"learning_rate": RATE}),
    "momentum": (momentum, fluid.optimizer.Momentum, {"learning_rate": RATE, "momentum": 0.9}),
    "nesterov": (
        nesterov,
        fluid.optimizer.MomentumOptimizer,
        {"learning_rate": RATE, "momentum": 0.9, "use_nesterov": True},
    ),
    "adam": (adam, fluid.optimizer.AdamOptimizer, ADAM),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    update, make, options = OPTIMIZERS[name]
    compare(train(minimizing(make, **options)), reference(update, None))


def test_adam_takes_betas_and_rate_as_variables() -> None:
    def minimize(loss: Any) -> None:
        given = {
            key: fluid.layers.create_global_var([1], value, "float32", persistable=True, name=key)
            for key, value in ADAM.items()
            if key != "epsilon"
        }
        fluid.optimizer.Adam(epsilon=1e-6, **given).minimize(loss)

    # The powers start at 0.9 and 0.999 whatever the variables hold, as in Fluid.
    def update(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
        first, second = kept.get("pow", (0.9, 0.999))
        kept["m"] = 0.8 * kept.get("m", 0) + 0.2 * grad
        kept["v"] = 0.95 * kept.get("v", 0) + 0.05 * grad**2
        kept["pow"] = first * 0.8, second * 0.95
        rate = RATE * np.sqrt(1 - second) / (1 - first)
        return param - rate * kept["m"] / (np.sqrt(kept["v"]) + 1e-6)

    compare(train(minimize), reference(update, None))


def plus(add: Callable[[str, Array], Any]) -> Change:
    return lambda params, grads: {name: grads[name] + add(name, params[name]) for name in grads}


DECAYS: dict[str, tuple[Any, Change]] = {
    "l2": (L2(0.3), plus(lambda name, param: 0.3 * param)),
    "l1": (fluid.regularizer.L1Decay(0.3), plus(lambda name, param: 0.3 * np.sign(param))),
}


@pytest.mark.parametrize("name", DECAYS)
def test_regularizers(name: str) -> None:
    decay, change = DECAYS[name]
    made = minimizing(fluid.optimizer.SGD, learning_rate=RATE, regularization=decay)
    compare(train(made), reference(sgd, change))


def test_a_parameters_own_regularizer_goes_first() -> None:
    made = minimizing(fluid.optimizer.SGD, learning_rate=RATE, regularization=L2(0.3))
    change = plus(lambda name, param: (0.7 if name == "first" else 0.3) * param)
    compare(train(made, first={"regularizer": L2(0.7)}), reference(sgd, change))


def norm(values: Any) -> Any:
    return np.sqrt(sum((value**2).sum() for value in values))


def by_value(params: dict[str, Array], grads: dict[str, Array]) -> dict[str, Array]:
    return {name: np.clip(grad, -0.2, 0.4) for name, grad in grads.items()}


def by_norm(params: dict[str, Array], grads: dict[str, Array]) -> dict[str, Array]:
    return {name: grad * min(1, 0.6 / norm([grad])) for name, grad in grads.items()}


def by_global_norm(params: dict[str, Array], grads: dict[str, Array]) -> dict[str, Array]:
    factor = 0.6 / max(0.6, norm(grads.values()))
    return {name: grad * factor for name, grad in grads.items()}


CLIPS: dict[str, tuple[Any, Change]] = {
    "value": (fluid.clip.GradientClipByValue(max=0.4, min=-0.2), by_value),
    "norm": (fluid.clip.GradientClipByNorm(0.6), by_norm),
    "global": (fluid.clip.GradientClipByGlobalNorm(0.6), by_global_norm),
}


@pytest.mark.parametrize("name", CLIPS)
def test_clips_given_to_the_optimizer(name: str) -> None:
    clip, change = CLIPS[name]
    made = minimizing(fluid.optimizer.SGD, learning_rate=RATE, grad_clip=clip)
    compare(train(made), reference(sgd, change))


@pytest.mark.parametrize("name", CLIPS)
def test_clips_set_on_parameters(name: str) -> None:
    clip, change = CLIPS[name]

    def minimize(loss: Any) -> None:
        with pytest.warns(UserWarning, match="grad_clip"):
            fluid.clip.set_gradient_clip(clip)
        fluid.optimizer.SGD(RATE).minimize(loss)

    compare(train(minimize), reference(sgd, change))


def test_clip_of_chosen_parameters_only() -> None:
    clip = fluid.clip.GradientClipByValue(0.1, need_clip=lambda param: param.name == "second")
    made = minimizing(fluid.optimizer.SGD, learning_rate=RATE, grad_clip=clip)

    def change(params: dict[str, Array], grads: dict[str, Array]) -> dict[str, Array]:
        return grads | {"second": np.clip(grads["second"], -0.1, 0.1)}

    compare(train(made), reference(sgd, change))


def test_clip_goes_before_decay() -> None:
    made = minimizing(
        fluid.optimizer.SGD,
        learning_rate=RATE,
        regularization=L2(0.3),
        grad_clip=CLIPS["value"][0],
    )

    def change(params: dict[str, Array], grads: dict[str, Array]) -> dict[str, Array]:
        return plus(lambda name, param: 0.3 * param)(params, by_value(params, grads))

    compare(train(made), reference(sgd, change))


def test_error_clip_limits_the_gradient_of_a_variable() -> None:
    def minimize(loss: Any) -> None:
        block = loss.block
        for var in list(block.vars.values()):
            if not isinstance(var, fluid.framework.Parameter) and var.name.startswith("fc_0"):
                var.set_error_clip(fluid.clip.ErrorClipByValue(max=0.05))
        fluid.optimizer.SGD(RATE).minimize(loss)

    def change(params: dict[str, Array], grads: dict[str, Array]) -> dict[str, Array]:
        # Each of four rows passes 1/4 on; clipped it passes 0.05.
        return grads | {"first": grads["first"] * 0.05 / 0.25}

    compare(train(minimize), reference(sgd, change))


def test_learning_rate_of_one_parameter() -> None:
    made = minimizing(fluid.optimizer.SGD, learning_rate=RATE)

    def change(params: dict[str, Array], grads: dict[str, Array]) -> dict[str, Array]:
        return grads | {"second": 2.5 * grads["second"]}

    compare(train(made, second={"learning_rate": 2.5}), reference(sgd, change))


@pytest.mark.parametrize("choose", ["trainable", "parameter_list", "no_grad_set"])
def test_parameters_that_stay(choose: str) -> None:
    def minimize(loss: Any) -> None:
        options: dict[str, Any] = {
            "trainable": {},
            "parameter_list": {"parameter_list": ["second"]},
            "no_grad_set": {"no_grad_set": {"first"}},
        }[choose]
        ops, pairs = fluid.optimizer.SGD(RATE).minimize(loss, **options)
        assert [param.name for param, _ in pairs] == ["second"]
        assert [op.type for op in ops] == ["sgd"]

    def change(params: dict[str, Array], grads: dict[str, Array]) -> dict[str, Array]:
        return grads | {"first": 0 * grads["first"]}

    attributes = {"first": {"trainable": False}} if choose == "trainable" else {}
    compare(train(minimize, **attributes), reference(sgd, change))


@pytest.mark.parametrize("rows", [1, 5])
def test_gradients_of_a_loss_of_several_elements_are_those_of_their_sum(rows: int) -> None:
    """Only optimizers refuse one; scripts that explain predictions derive a loss for each row."""
    found = {}
    for total in (False, True):
        main, startup = fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 3
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x = fluid.data("x", [None, 4])
            probable = fluid.layers.softmax(fluid.layers.fc(x, 3))
            loss = fluid.layers.reduce_sum(fluid.layers.square(probable), dim=1)
            if total:
                loss = fluid.layers.reduce_sum(loss)
            else:
                with pytest.raises(AssertionError, match=r"layers\.mean to process"):
                    fluid.optimizer.SGD(0.1).minimize(loss)
            pairs = fluid.backward.append_backward(loss)
        with fluid.scope_guard(fluid.Scope()):
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(startup)
            feed = {"x": np.random.RandomState(0).rand(rows, 4).astype("float32")}
            found[total] = exe.run(main, feed, [gradient for _, gradient in pairs])
    for one, other in zip(found[False], found[True], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
