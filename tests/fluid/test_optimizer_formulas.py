"""Each optimizer against its formula in NumPy, three steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from tests.fluid.test_optimizer import RATE, Array, compare, minimizing, reference
from tests.fluid.training_steps import START, train

opt = fluid.optimizer
Formula = Callable[[Array, Array, dict[str, Any]], Array]


def _keep(kept: dict[str, Any], name: str, share: float, new: Any) -> Any:
    kept[name] = share * kept.get(name, 0.0) + (1 - share) * new
    return kept[name]


def adagrad(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
    kept["m"] = kept.get("m", 0.5) + grad**2
    return param - RATE * grad / (np.sqrt(kept["m"]) + 1e-4)


def decayed_adagrad(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
    return param - RATE * grad / (np.sqrt(_keep(kept, "m", 0.8, grad**2)) + 1e-4)


def adadelta(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
    squares = _keep(kept, "g", 0.9, grad**2) + 1e-4
    former = np.sqrt((kept.get("u", 0.0) + 1e-4) / squares) * grad
    updates = _keep(kept, "u", 0.9, former**2) + 1e-4
    return param - np.sqrt(updates / squares) * grad


def adamax(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
    kept["t"] = kept.get("t", 0) + 1
    kept["n"] = np.maximum(0.95 * kept.get("n", 0.0) + 1e-4, np.abs(grad))
    return param - RATE / (1 - 0.8 ** kept["t"]) * _keep(kept, "m", 0.8, grad) / kept["n"]


def rmsprop(centered: bool) -> Formula:
    def step(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
        spread = _keep(kept, "s", 0.8, grad**2) + 1e-2
        if centered:
            spread = spread - _keep(kept, "g", 0.8, grad) ** 2
        kept["m"] = 0.7 * kept.get("m", 0.0) + RATE * grad / np.sqrt(spread)
        return param - kept["m"]

    return step


def ftrl(power: float) -> Formula:
    """With l1 in the place of l2, as Fluid has it."""

    def step(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
        old = kept.get("s", np.zeros_like(grad))
        kept["s"] = old + grad**2
        pull = (kept["s"] ** -power - old**-power) / RATE
        kept["l"] = kept.get("l", 0.0) + grad - pull * param
        moved = (0.1 * np.sign(kept["l"]) - kept["l"]) / (kept["s"] ** -power / RATE + 2 * 0.1)
        return np.where(np.abs(kept["l"]) > 0.1, moved, 0.0)

    return step


def lars(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
    length = np.linalg.norm(param)
    local = RATE * 0.5 * length / (np.linalg.norm(grad) + 0.01 * length)
    kept["v"] = 0.9 * kept.get("v", 0.0) + local * (grad + 0.01 * param)
    return param - kept["v"]


def lamb(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
    first, second = _keep(kept, "m", 0.8, grad), _keep(kept, "v", 0.95, grad**2)
    ratio = first / (np.sqrt(second) + 1e-4) + 0.03 * param
    return param - RATE * np.linalg.norm(param) / np.linalg.norm(ratio) * ratio


def adam_without_mean(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
    second = _keep(kept, "v", 0.95, grad**2)
    kept["power"] = kept.get("power", 1.0) * 0.95
    return param - RATE * np.sqrt(1 - kept["power"]) * grad / (np.sqrt(second) + 1e-4)


def descent(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
    return param - RATE * grad


def dpsgd(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
    return param - RATE * grad / max(np.linalg.norm(grad) / 0.3, 1.0)


BOTH = {"beta1": 0.8, "beta2": 0.95, "epsilon": 1e-4}
FORMULAS: dict[str, tuple[Formula, Any, dict[str, Any]]] = {
    "adagrad": (adagrad, opt.Adagrad, {"epsilon": 1e-4, "initial_accumulator_value": 0.5}),
    "decayed_adagrad": (decayed_adagrad, opt.DecayedAdagrad, {"decay": 0.8, "epsilon": 1e-4}),
    "adadelta": (adadelta, opt.Adadelta, {"rho": 0.9, "epsilon": 1e-4}),
    "adamax": (adamax, opt.Adamax, BOTH),
    "rmsprop": (rmsprop(False), opt.RMSProp, {"rho": 0.8, "epsilon": 1e-2, "momentum": 0.7}),
    "centered": (
        rmsprop(True),
        opt.RMSPropOptimizer,
        {"rho": 0.8, "epsilon": 1e-2, "momentum": 0.7, "centered": True},
    ),
    "ftrl": (ftrl(-0.5), opt.Ftrl, {"l1": 0.1, "l2": 0.2}),
    "ftrl_power": (ftrl(-0.3), opt.FtrlOptimizer, {"l1": 0.1, "l2": 0.2, "lr_power": -0.3}),
    "lars": (
        lars,
        opt.LarsMomentum,
        {"momentum": 0.9, "lars_coeff": 0.5, "lars_weight_decay": 0.01},
    ),
    "lamb": (lamb, opt.Lamb, BOTH | {"lamb_weight_decay": 0.03}),
    "adam of GANs": (adam_without_mean, opt.Adam, BOTH | {"beta1": 0.0}),
    "momentum of nothing": (descent, opt.Momentum, {"momentum": 0.0}),
    "nesterov of nothing": (descent, opt.Momentum, {"momentum": 0.0, "use_nesterov": True}),
    "dpsgd": (dpsgd, opt.Dpsgd, {"clip": 0.3, "sigma": 0.0}),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name: str) -> None:
    formula, make, options = FORMULAS[name]
    made = minimizing(make, learning_rate=RATE, **options)
    compare(train(made), reference(formula, None))


def test_lamb_without_decay_for_some() -> None:
    def formula(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
        first, second = _keep(kept, "m", 0.8, grad), _keep(kept, "v", 0.95, grad**2)
        ratio = first / (np.sqrt(second) + 1e-4)
        return param - RATE * np.linalg.norm(param) / np.linalg.norm(ratio) * ratio

    made = minimizing(
        opt.Lamb,
        learning_rate=RATE,
        lamb_weight_decay=0.03,
        exclude_from_weight_decay_fn=lambda param: param.name in START,
        **BOTH,
    )
    compare(train(made), reference(formula, None))


def test_adam_with_decoupled_decay() -> None:
    def formula(param: Array, grad: Array, kept: dict[str, Any]) -> Array:
        return param - RATE * grad - 0.2 * param

    decayed = fluid.contrib.extend_with_decoupled_weight_decay(opt.SGD)
    compare(
        train(minimizing(decayed, weight_decay=0.2, learning_rate=RATE)), reference(formula, None)
    )
    with pytest.raises(TypeError, match="derived class of Optimizer"):
        fluid.contrib.extend_with_decoupled_weight_decay(fluid.layers.fc)
    with pytest.raises(TypeError, match="coeff should be"):
        decayed(weight_decay="0.2", learning_rate=RATE)


def test_decoupled_decay_of_some() -> None:
    decayed = fluid.contrib.extend_with_decoupled_weight_decay(opt.SGD)
    made = minimizing(
        decayed,
        weight_decay=0.5,
        apply_decay_param_fun=lambda name: name == "first",
        learning_rate=0.0,
    )
    last = train(made)[-1]
    np.testing.assert_allclose(last["first"], 0.125 * START["first"], rtol=1e-6)
    np.testing.assert_array_equal(last["second"], START["second"])


def test_lookahead() -> None:
    starts = {
        name: {"initializer": fluid.initializer.NumpyArrayInitializer(value)}
        for name, value in START.items()
    }

    def minimize(loss: Any) -> None:
        opt.LookaheadOptimizer(opt.SGD(RATE), alpha=0.25, k=2).minimize(loss)

    history = train(minimize, 4, **starts)
    plain = train(minimizing(opt.SGD, learning_rate=RATE), 4)
    for name, start in START.items():
        fast = slow = start
        former = start
        for number in range(4):
            fast, former = fast + plain[number][name] - former, plain[number][name]
            if number % 2 == 1:
                slow = slow + 0.25 * (fast - slow)
                fast = slow
            np.testing.assert_allclose(history[number][name], fast, rtol=1e-5, atol=1e-6)


def test_lookahead_checks_its_arguments() -> None:
    for arguments in ({"alpha": 1.5}, {"k": 0}, {"k": 2.5}):
        with pytest.raises(AssertionError):
            opt.LookaheadOptimizer(opt.SGD(0.1), **arguments)
