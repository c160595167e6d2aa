"""A recording runs only on what it was recorded for: what differs in anything is looked at anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet

Change = Callable[["Reshaping"], Any]


class Reshaping:
    """A network that sees how its feed and its parameter lie: a recording has views of both."""

    def __init__(self) -> None:
        self.main, startup = fluid.Program(), fluid.Program()
        self.main.random_seed = startup.random_seed = 5
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            x = fluid.data("x", [4, 4])
            weight = fluid.layers.create_parameter([4, 4], "float32", "weight")
            rows = fluid.layers.reshape(x, [2, 8])
            made = fluid.layers.matmul(rows, fluid.layers.reshape(weight, [8, 2]))
            self.loss = fluid.layers.mean(fluid.layers.square(made))
            fluid.optimizer.SGD(0.1).minimize(self.loss)
        self.exe, self.scope = fluid.Executor(), fluid.Scope()
        self.exe.run(startup, scope=self.scope)
        self.cell = self.scope.find_var("weight")
        self.cell.value = torch.arange(16.0).reshape(4, 4) / 16

    def step(self, x: Any) -> float:
        found: Any = self.exe.run(self.main, {"x": x}, [self.loss], scope=self.scope)
        return float(found[0].item())


def turned(value: torch.Tensor) -> torch.Tensor:
    return value.t().contiguous().t()


def other_feed(net: Reshaping) -> Any:
    return turned(torch.arange(16.0).reshape(4, 4))


def other_parameter(net: Reshaping) -> Any:
    net.cell.value = turned(net.cell.value)
    return np.arange(16, dtype="float32").reshape(4, 4)


def equal_parameter(net: Reshaping) -> Any:
    net.cell.value = net.cell.value.clone()
    return np.arange(16, dtype="float32").reshape(4, 4)


@pytest.mark.parametrize("change", [other_feed, other_parameter, equal_parameter])
def test_what_lies_otherwise_is_computed_as_ever(change: Change) -> None:
    found = []
    for tier in ("interpreted", "recorded"):
        with flags.override({"FLAGS_refluid_tier": tier}):
            net, losses = Reshaping(), []
            for _ in range(3):
                losses.append(net.step(np.ones((4, 4), "float32")))
            given = change(net)
            losses += [net.step(given), net.step(given), net.step(np.ones((4, 4), "float32"))]
            found.append((losses, net.cell.value.tolist()))
    assert found[0] == found[1]


def test_a_variable_that_was_taken_away_is_named() -> None:
    with flags.override({"FLAGS_refluid_tier": "recorded"}):
        net = Reshaping()
        for _ in range(3):
            net.step(np.ones((4, 4), "float32"))
        value, net.cell.value = net.cell.value, None
        with pytest.raises(EnforceNotMet, match="variable weight has not been initialized"):
            net.step(np.ones((4, 4), "float32"))
        net.cell.value = value
        assert np.isfinite(net.step(np.ones((4, 4), "float32")))
