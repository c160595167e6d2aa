"""Attributes that a declarative function changes: each call sees and leaves what dygraph does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid

dygraph, layers = fluid.dygraph, fluid.layers


@pytest.fixture(autouse=True)
def _translator() -> Iterator[None]:
    yield
    dygraph.ProgramTranslator().reset()


class Net(dygraph.Layer):
    """A network with something to remember."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.last = dygraph.Linear(3, 3), dygraph.Linear(3, 3)
        self.hidden: Any = None
        self.rows: list[Any] = []
        self.parts: dict[str, Any] = {}
        self.rounds, self.warm = 0, False


class State(Net):
    def forward(self, x: Any) -> Any:
        if self.hidden is None:
            self.hidden = x * 0
        self.hidden = layers.tanh(self.linear(x) + self.hidden * 0.5)
        return self.hidden * 2


class BesideResult(Net):
    def forward(self, x: Any) -> Any:
        h = self.linear(x)
        self.hidden = layers.reduce_mean(h * h)
        self.found = h, {"twice": self.hidden * 2}
        return self.last(h)


class Rows(Net):
    def forward(self, x: Any) -> Any:
        self.rows = []
        for _ in range(3):
            x = self.linear(x)
            self.rows.append(x)
        return x


class Growing(Net):
    def forward(self, x: Any) -> Any:
        self.rows.append(self.linear(x))
        self.parts["sum"] = self.parts.get("sum", 0) + self.rows[-1]
        return sum(self.rows)


class Once(Net):
    def forward(self, x: Any) -> Any:
        if not self.warm:
            self.warm = True
            return self.linear(x) * 10
        return self.linear(x)


class Counted(Net):
    def forward(self, x: Any) -> Any:
        self.rounds += 1
        return self.linear(x) * self.rounds


class Within(Net):
    def __init__(self) -> None:
        super().__init__()
        self.state = State()

    def forward(self, x: Any) -> Any:
        y = self.state(x)
        if layers.reduce_mean(x) > 0:
            self.hidden = self.state.hidden
        else:
            self.hidden = x
        return y + self.linear(x)


def _square(x: Any) -> Any:
    return layers.reduce_mean(x * x)


def _twice(net: Any, x: Any) -> Any:
    net.hidden = None
    return _square(net(x) + net(x))


def _detached(net: Any, x: Any) -> Any:
    loss = _square(net(x))
    net.hidden = net.hidden.detach()
    return loss


def _beside(net: Any, x: Any) -> Any:
    loss = _square(net(x)) + net.hidden
    return loss + layers.reduce_mean(net.found[0]) + net.found[1]["twice"]


def _rows(net: Any, x: Any) -> Any:
    return _square(net(x)) + layers.reduce_mean(sum(net.rows)) * len(net.rows)


def _growing(net: Any, x: Any) -> Any:
    kept = net.rows = []
    net.parts.clear()
    loss = _square(net(x)) + _square(net(x)) * len(kept)
    return loss + layers.reduce_mean(net.parts["sum"])


def _one(net: Any, x: Any) -> Any:
    return _square(net(x))


def _counted(net: Any, x: Any) -> Any:
    return _square(net(x)) * net.rounds


def _within(net: Any, x: Any) -> Any:
    net.state.hidden = None
    return _square(net(x)) + _square(net(x)) + layers.reduce_mean(net.hidden)


def _losses(kind: type[Any], loss: Callable[[Any, Any], Any], *, declared: bool) -> list[float]:
    if declared:
        kind = type(kind.__name__, (kind,), {"forward": dygraph.declarative(kind.forward)})
    random, found = np.random.RandomState(0), []
    with dygraph.guard():
        net = kind()
        values = {
            name: (random.randn(*var.shape) * 0.3).astype("float32")
            for name, var in net.state_dict().items()
        }
        net.set_dict(values)
        adam = fluid.optimizer.Adam(0.01, parameter_list=net.parameters())
        for step in range(7):
            x = random.randn(4, 3).astype("float32") * (1 + step % 2)
            one = loss(net, dygraph.to_variable(x))
            one.backward()
            adam.minimize(one)
            net.clear_gradients()
            found.append(float(one))
    return found


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        (State, _twice),
        (State, _detached),
        (BesideResult, _beside),
        (Rows, _rows),
        (Growing, _growing),
        (Once, _one),
        (Counted, _counted),
        (Within, _within),
    ],
)
def test_attributes_are_as_in_dygraph(kind: type[Any], loss: Callable[[Any, Any], Any]) -> None:
    np.testing.assert_allclose(
        _losses(kind, loss, declared=True), _losses(kind, loss, declared=False), rtol=1e-4
    )


class _Declared(Counted):
    forward = dygraph.declarative(Counted.forward)


def test_what_changes_in_each_call_is_said(caplog: pytest.LogCaptureFixture) -> None:
    x = np.ones([2, 3], "float32")
    with dygraph.guard(), caplog.at_level(logging.WARNING, "refluid"):
        net, plain = _Declared(), Counted()
        plain.set_dict(net.state_dict())
        for _ in range(8):
            np.testing.assert_allclose(net(x).numpy(), plain(dygraph.to_variable(x)).numpy())
        assert not caplog.records
        before = net(x).numpy()
        assert "attribute 'rounds' of _Declared is another one in each call" in caplog.text
        np.testing.assert_allclose(net(x).numpy(), before)


class _Beside(BesideResult):
    forward = dygraph.declarative(BesideResult.forward)


def test_what_attributes_hold_is_no_result_that_is_saved(tmp_path: Path) -> None:
    x = np.ones([2, 3], "float32")
    with dygraph.guard():
        net = _Beside()
        for _ in range(3):
            found = net(x).numpy()
        dygraph.ProgramTranslator().save_inference_model(str(tmp_path))
    exe = fluid.Executor()
    program, feeds, fetches = fluid.io.load_inference_model(str(tmp_path), exe)
    (loaded,) = exe.run(program, feed=dict(zip(feeds, [x], strict=True)), fetch_list=fetches)
    np.testing.assert_allclose(loaded, found, rtol=1e-6)


class _Fails(Net):
    @dygraph.declarative
    def forward(self, x: Any) -> Any:
        self.hidden = self.linear(x)
        self.rows.append(self.hidden)
        raise ArithmeticError("on purpose")


def test_an_error_leaves_attributes_as_they_were() -> None:
    with dygraph.guard():
        net = _Fails()
        with pytest.raises(ArithmeticError, match="on purpose"):
            net(np.ones([2, 3], "float32"))
        assert net.hidden is None and net.rows == []
