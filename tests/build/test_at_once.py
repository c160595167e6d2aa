"""Layers give the same numbers through a backend that runs operators at once as in a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refluid import build, fluid
from tests.build.eager import AtOnce, Value
from tests.build.networks import NETWORKS, drawn, start


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


@pytest.mark.parametrize("name", NETWORKS)
def test_numbers_are_those_of_a_program(name: str) -> None:
    types, expected = _as_program(name)
    network, feeds = NETWORKS[name]
    now, before = AtOnce(), fluid.default_main_program().current_block().ops.copy()
    with build.using(now), fluid.unique_name.guard(), torch.no_grad():
        made = _listed(network(*[Value(torch.tensor(one)) for one in feeds.values()]))
    assert [one for one in now.ran if one in types] == types
    assert fluid.default_main_program().current_block().ops == before
    for one, wanted in zip(made, expected, strict=True):
        np.testing.assert_array_equal(one.tensor.numpy(), wanted)
        assert one.tensor.numpy().dtype == wanted.dtype


def test_gradients_are_those_of_autograd() -> None:
    x = Value(torch.tensor(drawn(4, 6)))
    now = AtOnce({"w": torch.tensor(drawn(6, 3), requires_grad=True)})
    with build.using(now):
        loss = fluid.layers.mean(fluid.layers.fc(x, 3, param_attr="w", bias_attr=False, act="tanh"))
    loss.tensor.backward()
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        given = fluid.data("x", [4, 6])
        made = fluid.layers.fc(
            given, 3, param_attr=start(6, 3, seed=1), bias_attr=False, act="tanh"
        )
        pairs = fluid.backward.append_backward(fluid.layers.mean(made))
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        (wanted,) = executor.run(main, {"x": drawn(4, 6)}, [pairs[0][1]])
    np.testing.assert_allclose(now.parameters["w"].tensor.grad.numpy(), wanted, rtol=1e-6)
