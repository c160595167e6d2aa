"""Layers give the same numbers through a backend that runs operators at once as in a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refluid import build, fluid
from refluid.core.places import CPUPlace
from refluid.eager import Eager, VarBase
from refluid.eager.tracing import recorded
from tests.build.networks import NETWORKS, drawn, start

# In programs a convolution has its bias in it, which some processors' kernels add first, some last.
_ROUNDED = {"conv2d": 1e-5}


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, list | tuple) else [made]


def _as_program(name: str) -> tuple[list[str], list[Any]]:
    network, feeds = NETWORKS[name]
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        given = [fluid.data(key, one.shape, str(one.dtype)) for key, one in feeds.items()]
        made = _listed(network(*given))
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        return [op.type for op in main.global_block().ops], executor.run(main, feeds, made)


def _variables(feeds: dict[str, Any]) -> list[VarBase]:
    return [VarBase(torch.tensor(one), stop_gradient=True) for one in feeds.values()]


@pytest.mark.parametrize("name", NETWORKS)
def test_numbers_are_those_of_a_program(name: str) -> None:
    types, expected = _as_program(name)
    network, feeds = NETWORKS[name]
    now, before = Eager(CPUPlace()), fluid.default_main_program().current_block().ops.copy()
    with build.using(now), fluid.unique_name.guard(), torch.no_grad():
        with recorded(now) as ran:
            network(*_variables(feeds))
        for _ in range(2):  # by plans, and without
            made = _listed(network(*_variables(feeds)))
    assert [one.type for one in ran if one.type in types] == types
    assert fluid.default_main_program().current_block().ops == before
    for one, wanted in zip(made, expected, strict=True):
        bound = _ROUNDED.get(name, 0.0)
        np.testing.assert_allclose(one.numpy(), wanted, rtol=bound, atol=bound)
        assert one.numpy().dtype == wanted.dtype


def test_gradients_are_those_of_autograd() -> None:
    w, x = start(6, 3, seed=1), VarBase(torch.tensor(drawn(4, 6)), stop_gradient=True)
    kept: list[Any] = []
    with build.using(Eager(CPUPlace())):
        for _ in range(2):  # by plans, and without
            parts = fluid.layers.fc(x, 3, param_attr=w, bias_attr=False, act="tanh")
            loss = fluid.layers.mean(parts)
            loss.backward()
            kept.append(_gradient(loss))
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        given = fluid.data("x", [4, 6])
        made = fluid.layers.fc(given, 3, param_attr=w, bias_attr=False, act="tanh")
        pairs = fluid.backward.append_backward(fluid.layers.mean(made))
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        (wanted,) = executor.run(main, {"x": drawn(4, 6)}, [pairs[0][1]])
    for found in kept:
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def _gradient(loss: VarBase) -> Any:
    """That of the only parameter that the loss was computed from."""
    found: list[Any] = []
    todo = [loss.tensor.grad_fn]
    while todo:
        one = todo.pop()
        found += [one.variable] if hasattr(one, "variable") else []
        todo += [following for following, _ in one.next_functions if following is not None]
    (parameter,) = found
    return parameter.grad.numpy()
