"""Which parameters layers make and what they call them, where that is not what one expects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import notices

L = fluid.layers


@pytest.fixture(autouse=True)
def _programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(notices, "_told", set())
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield


def _data(*shape: int | None) -> fluid.Variable:
    return fluid.data("x", list(shape))


def _normed(shape: list[int], dim: int | None) -> Any:
    return L.create_parameter(shape, "float32", attr=fluid.WeightNormParamAttr(dim=dim, name="w"))


MADE: dict[str, tuple[Callable[[], Any], dict[str, tuple[int, ...]]]] = {
    "group_norm": (lambda: L.group_norm(_data(2, 4, 2, 2), 2), {}),
    "group_norm with a scale": (
        lambda: L.group_norm(_data(2, 4, 2, 2), 2, param_attr="s"),
        {"s": (4,)},
    ),
    "group_norm with both": (
        lambda: L.group_norm(
            _data(2, 2, 2, 4), 2, param_attr="s", bias_attr="b", data_layout="NHWC"
        ),
        {"s": (4,), "b": (4,)},
    ),
    "data_norm": (
        lambda: L.data_norm(_data(3, 4)),
        {f"dn.{name}": (4,) for name in ("batch_size", "batch_square_sum", "batch_sum")},
    ),
    "data_norm of a name": (
        lambda: L.data_norm(_data(3, 4), name="n"),
        {f"n.{name}": (4,) for name in ("batch_size", "batch_square_sum", "batch_sum")},
    ),
    "prelu of a matrix": (
        lambda: L.prelu(_data(3, 4), "channel"),
        {"prelu_0.w_0": (1, 4, 1, 1)},
    ),
    "prelu of volumes": (
        lambda: L.prelu(_data(3, 4, 2, 2, 2), "channel"),
        {"prelu_0.w_0": (1, 4, 1, 1)},
    ),
    "prelu of elements": (
        lambda: L.prelu(_data(None, 4, 2), "element"),
        {"prelu_0.w_0": (1, 4, 2)},
    ),
    "one length": (lambda: _normed([3, 2], None), {"w_g": (1, 1), "w_v": (3, 2)}),
    "one length of four": (
        lambda: _normed([3, 2, 2, 1], None),
        {"w_g": (1, 1, 1, 1), "w_v": (3, 2, 2, 1)},
    ),
    "lengths of rows": (lambda: _normed([3, 2], 0), {"w_g": (3, 1), "w_v": (3, 2)}),
}


@pytest.mark.parametrize("case", MADE)
def test_parameters(case: str) -> None:
    build, wanted = MADE[case]
    build()
    made = fluid.default_main_program().all_parameters()
    assert {one.name: tuple(one.shape) for one in made} == wanted


def _run(*wanted: Any, **feed: Any) -> Any:
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        executor.run(fluid.default_startup_program())
        return executor.run(feed=feed, fetch_list=list(wanted))


def test_data_norms_without_a_name_share_their_sums() -> None:
    x = _data(3, 4)
    out = L.data_norm(x) + L.data_norm(x)
    assert len(fluid.default_main_program().all_parameters()) == 3
    data = np.random.RandomState(0).rand(3, 4).astype("float32")
    np.testing.assert_allclose(_run(out, x=data)[0], 2 * data, rtol=1e-6)


def test_group_norm_without_parameters_learns_its_input_alone() -> None:
    x = _data(2, 4, 2, 2)
    x.stop_gradient = False
    out = L.group_norm(x, 2)
    (d_x,) = fluid.gradients(L.reduce_sum(L.square(out) * x), x)
    data = np.random.RandomState(0).rand(2, 4, 2, 2).astype("float32")
    value, gradient = _run(out, d_x, x=data)
    groups = value.reshape(2, 2, 8)
    np.testing.assert_allclose(groups.mean(2), 0, atol=1e-6)
    np.testing.assert_allclose(groups.std(2), 1, rtol=1e-3)
    # The mean counts as a constant.
    flow = (2 * value * data).reshape(2, 2, 8)
    along = (flow * groups).mean(2, keepdims=True)
    scale = 1 / np.sqrt(data.reshape(2, 2, 8).var(2, keepdims=True) + 1e-5)
    wanted = ((flow - groups * along) * scale).reshape(data.shape) + value**2
    np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-5)


def test_gru_unit_says_that_it_ignores_activations(caplog: pytest.LogCaptureFixture) -> None:
    hidden = fluid.data("h", [1, 2])
    for _ in range(2):
        L.gru_unit(_data(1, 6), hidden, 6, activation="relu", gate_activation="identity")
    op = next(op for op in fluid.default_main_program().global_block().ops)
    assert (op.attr("activation"), op.attr("gate_activation")) == (2, 1)
    assert len(caplog.records) == 2
    assert "it is tanh" in caplog.text
    assert "it is sigmoid" in caplog.text


def test_indices_of_maxima_are_declared_as_the_elements() -> None:
    out, index = L.adaptive_pool2d(_data(1, 1, 4, 4), 2, "max", require_index=True)
    assert index.dtype == out.dtype
    assert out.name == "max_pool2d_with_index_0.tmp_0"
    assert _run(index, x=np.ones((1, 1, 4, 4), "float32"))[0].dtype == np.int32
    assert L.adaptive_pool3d(fluid.data("v", [1, 1, 4, 4, 4]), 2, "avg").name == "pool3d_0.tmp_0"
