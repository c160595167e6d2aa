"""Recorded calls run here: in a program, and at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import refluid.paddle
from refluid import fluid
from refluid.core.places import CPUPlace
from refluid.eager import mode
from refluid.ir.variable import Variable
from refluid.paddle import static
from refluid.paddle.framework.modes import grad
from tests.paddle.two.cases import Call, Given
from tests.paddle.two.networks import fresh

Array = np.ndarray[Any, Any]


def function(name: str) -> Any:
    """A function by its name below `paddle`."""
    found: Any = refluid.paddle
    for part in name.split("."):
        found = getattr(found, part)
    return found


def variables(given: Any, drawn: Any, make: Callable[[Array, bool], Any], taking: list[Any]) -> Any:
    """An argument as functions take it; what takes a gradient is noted in `taking`."""
    if isinstance(given, list) and drawn and isinstance(drawn[0], np.ndarray):
        return [
            variables(one, value, make, taking) for one, value in zip(given, drawn, strict=True)
        ]
    if not isinstance(given, Given):
        return drawn
    takes = drawn.dtype.kind in "fc" and not given.fixed
    made = make(drawn, takes)
    if takes:
        taking.append(made)
    return made


def weighted(outs: list[Any], constant: Callable[[Array], Any]) -> Any:
    """The sum of all results that take gradients, each element times a number; None without any."""
    random, loss = np.random.RandomState(1), None
    for out in outs:
        if refluid.paddle.is_complex(out):
            out = refluid.paddle.as_real(out)
        shape = [size for size in out.shape if size >= 0]
        weights = random.uniform(0.5, 1.5, shape).astype("float32")
        if int(out.dtype) not in (5, 6) or out.stop_gradient:
            continue
        scaled = refluid.paddle.cast(out, "float32") * constant(weights)
        term = refluid.paddle.sum(scaled)
        loss = term if loss is None else loss + term
    return loss


def listed(result: Any) -> list[Any]:
    """One result or several."""
    return list(result) if isinstance(result, list | tuple) else [result]


def at_once(name: str, call: Call) -> dict[str, Array]:
    """Results and gradients of a call that runs at once."""

    def make(array: Array, takes: bool) -> Any:
        return refluid.paddle.to_tensor(array, stop_gradient=not takes)

    with mode.eager(CPUPlace()):
        taking: list[Any] = []
        drawn = call.arrays(name)
        args = [
            variables(given, one, make, taking) for given, one in zip(call.args, drawn, strict=True)
        ]
        outs = listed(function(call.function)(*args, **call.settings))
        found = {f"out{n}": one.numpy() for n, one in enumerate(outs)}
        loss = weighted(outs, refluid.paddle.to_tensor)
        if loss is not None and taking and not loss.stop_gradient:
            for n, one in enumerate(grad(loss, taking, allow_unused=True)):
                if one is not None:
                    found[f"grad{n}"] = one.numpy()
    return found


def in_program(name: str, call: Call) -> dict[str, Array]:
    """The same of a program; its declared shapes and types are checked too."""
    feed: dict[str, Array] = {}

    def make(array: Array, takes: bool) -> Any:
        var = static.data(f"x{len(feed)}", list(array.shape), array.dtype.name)
        var.stop_gradient = not takes
        feed[var.name] = array
        return var

    with fresh() as (main, startup):
        taking: list[Any] = []
        drawn = call.arrays(name)
        args = [
            variables(given, one, make, taking) for given, one in zip(call.args, drawn, strict=True)
        ]
        outs = listed(function(call.function)(*args, **call.settings))
        known = all(size >= 0 for out in outs for size in out.shape)
        loss = weighted(outs, fluid.layers.assign) if known else None
        grads: list[Any] = []
        if loss is not None and taking and not loss.stop_gradient:
            grads = listed(static.gradients(loss, taking))
        names = {f"out{n}": one for n, one in enumerate(outs)}
        names |= {f"grad{n}": one for n, one in enumerate(grads) if one is not None}
        exe = static.Executor("cpu")
        exe.run(startup)
        values = exe.run(main, feed=feed, fetch_list=[*names.values()])
        _check_declared(outs, values)
        return dict(zip(names, values, strict=True))


def _check_declared(outs: list[Variable], values: list[Array]) -> None:
    for out, value in zip(outs, values, strict=False):
        assert len(out.shape) == value.ndim, f"declared {out.shape}, made {value.shape}"
        pairs = zip(out.shape, value.shape, strict=True)
        assert all(size in (-1, made) for size, made in pairs), (out.shape, value.shape)
