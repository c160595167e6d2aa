"""Dygraph and programs together: the same files, the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.fluid import dygraph

layers = fluid.layers
NAMES = ("first.w", "first.b", "last.w", "last.b")
SOURCE = np.random.RandomState(3)
BATCHES = [(SOURCE.rand(16, 6).astype("float32"), SOURCE.randint(0, 4, (16, 1))) for _ in range(4)]


def named(name: str) -> dict[str, Any]:
    return {
        "param_attr": fluid.ParamAttr(name=f"{name}.w"),
        "bias_attr": fluid.ParamAttr(name=f"{name}.b"),
    }


class Net(dygraph.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first = dygraph.Linear(6, 8, act="relu", **named("first"))
        self.last = dygraph.Linear(8, 4, **named("last"))

    def forward(self, x: Any) -> Any:
        return self.last(self.first(x))


def loss_of(out: Any, label: Any) -> Any:
    return layers.mean(layers.softmax_with_cross_entropy(out, label))


def squares(out: Any, label: Any) -> Any:
    return layers.mean(layers.square(out - layers.cast(label, "float32")))


def trained(net: Net, steps: int, loss_of: Any = loss_of) -> list[float]:
    chosen, losses = fluid.optimizer.Adam(0.05, parameter_list=net.parameters()), []
    for x, label in BATCHES[:steps]:
        loss = loss_of(net(dygraph.to_variable(x)), dygraph.to_variable(label))
        loss.backward()
        chosen.minimize(loss)
        net.clear_gradients()
        losses.append(float(loss))
    return losses


class Static:
    """The same network as a program."""

    def __init__(self, loss_of: Any = loss_of) -> None:
        self.main, startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            x, label = fluid.data("x", [None, 6]), fluid.data("label", [None, 1], "int64")
            self.out = layers.fc(layers.fc(x, 8, act="relu", **named("first")), 4, **named("last"))
            self.loss = loss_of(self.out, label)
            self.test = self.main.clone(for_test=True)
            fluid.optimizer.Adam(0.05).minimize(self.loss)
        self.executor = fluid.Executor()
        self.executor.run(startup, scope=self.scope)

    def losses(self, steps: int) -> list[float]:
        return [float(self._run(self.main, x, label, self.loss)) for x, label in BATCHES[:steps]]

    def outputs(self) -> Any:
        return self._run(self.test, *BATCHES[0], self.out)

    def _run(self, program: Any, x: Any, label: Any, fetch: Any) -> Any:
        feed = {"x": x, "label": label}
        return self.executor.run(program, feed, [fetch], scope=self.scope)[0]


def alike(loss_of: Any) -> tuple[Static, Net]:
    """A program, and a network of the same parameters."""
    static = Static(loss_of)
    with dygraph.guard():
        net = Net()
        for one in net.parameters():
            one.set_value(np.array(static.scope.find_var(one.name).get_tensor()))
    return static, net


def outputs(net: Net) -> Any:
    with dygraph.no_grad():
        return net(dygraph.to_variable(BATCHES[0][0])).numpy()


def test_a_program_goes_on_with_what_dygraph_trained(tmp_path: Path) -> None:
    with dygraph.guard():
        net = Net()
        trained(net, 3)
        wanted = outputs(net)
        fluid.save_dygraph(net.state_dict(), str(tmp_path / "net"))
    static = Static()
    with fluid.scope_guard(static.scope):
        state = fluid.load_program_state(str(tmp_path / "net"))
        assert state.keys() == set(NAMES)
        fluid.set_program_state(static.main, state)
    np.testing.assert_allclose(static.outputs(), wanted, rtol=1e-6)


@pytest.mark.parametrize("path", ["save", "save_params"])
def test_dygraph_goes_on_with_what_a_program_trained(tmp_path: Path, path: str) -> None:
    static = Static()
    static.losses(3)
    with fluid.scope_guard(static.scope):
        if path == "save":
            fluid.save(static.main, str(tmp_path / "net"))
            where = str(tmp_path / "net")
        else:
            fluid.io.save_params(static.executor, str(tmp_path / "net"), static.main)
            where = str(tmp_path / "net")
    with dygraph.guard():
        net = Net()
        state = fluid.load_dygraph(where)[0] if path == "save" else fluid.load_program_state(where)
        net.set_dict(state, use_structured_name=False)
        np.testing.assert_allclose(outputs(net), static.outputs(), rtol=1e-6)


@pytest.mark.parametrize("direct", [True, False])
def test_losses_are_those_of_the_program(direct: bool) -> None:
    with flags.override({"FLAGS_refluid_eager_direct": direct}):
        static, net = alike(loss_of)
        with dygraph.guard():
            found = trained(net, 4)
    assert found[0] != found[-1]
    np.testing.assert_allclose(found, static.losses(4), rtol=1e-6)


def test_losses_are_those_of_the_program_to_the_bit_where_the_kernels_are() -> None:
    static, net = alike(squares)
    with dygraph.guard():
        found = trained(net, 4, squares)
    assert found[0] != found[-1] and found == static.losses(4)
