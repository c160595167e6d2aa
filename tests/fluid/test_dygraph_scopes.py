"""Layers of dygraph that are given a scope first, as Fluid 1.5 and 1.6 had them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import all_parameters
from tests.fluid.once import own_programs

D = fluid.dygraph
Make = Callable[[], Any]
Array = np.ndarray
RANDOM = np.random.RandomState(4)


def _of(*sizes: int) -> Array:
    return RANDOM.rand(*sizes).astype("float32")


SAME: dict[str, tuple[Make, Make, list[Array]]] = {
    "Conv2D": (
        lambda: D.Conv2D("s", 6, 5, 2, act="relu"),
        lambda: D.Conv2D(3, 6, 5, 2, act="relu"),
        [_of(2, 3, 8, 8)],
    ),
    "PRelu": (lambda: D.PRelu("s", "all"), lambda: D.PRelu("all"), [_of(2, 3) - 0.5]),
    "PRelu of channels": (
        lambda: D.PRelu("s", mode="channel", param_attr=None),
        lambda: D.PRelu("channel", 3),
        [_of(2, 3, 2, 2) - 0.5],
    ),
    "PRelu of elements": (
        lambda: D.PRelu(name_scope="s", mode="element"),
        lambda: D.PRelu(mode="element", input_shape=[2, 3, 4]),
        [_of(2, 3, 4) - 0.5],
    ),
    "BilinearTensorProduct": (
        lambda: D.BilinearTensorProduct("s", 4, act="tanh"),
        lambda: D.BilinearTensorProduct(3, 5, 4, act="tanh"),
        [_of(2, 3), _of(2, 5)],
    ),
    "TreeConv": (
        lambda: D.TreeConv("s", 6, 2, bias_attr=False),
        lambda: D.TreeConv(5, 6, 2),
        [_of(1, 4, 5), np.array([[[1, 2], [1, 3], [2, 4]]], "int32")],
    ),
    "Conv3D": (
        lambda: D.Conv3D("s", num_filters=2, filter_size=2, groups=1),
        lambda: D.Conv3D(3, 2, 2),
        [_of(1, 3, 4, 4, 4)],
    ),
    "Conv2DTranspose": (
        lambda: D.Conv2DTranspose("s", 4, None, 3, 1, 2),
        lambda: D.Conv2DTranspose(3, 4, 3, None, 1, 2),
        [_of(2, 3, 5, 5)],
    ),
    "Conv3DTranspose": (
        lambda: D.Conv3DTranspose("s", 4, filter_size=3, name=None),
        lambda: D.Conv3DTranspose(3, 4, 3),
        [_of(1, 3, 3, 3, 3)],
    ),
    "Pool2D": (
        lambda: D.Pool2D(name_scope="s", pool_size=2, pool_stride=2),
        lambda: D.Pool2D(2, pool_stride=2),
        [_of(1, 2, 4, 4)],
    ),
    "BatchNorm": (
        lambda: D.BatchNorm("s", 3, "relu", fuse_with_relu=False),
        lambda: D.BatchNorm(3, "relu"),
        [_of(2, 3, 4, 4)],
    ),
    "LayerNorm": (
        lambda: D.LayerNorm("s", True, False, begin_norm_axis=2),
        lambda: D.LayerNorm(5, True, False),
        [_of(2, 3, 5)],
    ),
    "GroupNorm": (
        lambda: D.GroupNorm("s", 2, param_attr=fluid.ParamAttr()),
        lambda: D.GroupNorm(4, 2, param_attr=fluid.ParamAttr()),
        [_of(2, 4, 3, 3)],
    ),
    "SpectralNorm": (
        lambda: D.SpectralNorm("s", dim=1, power_iters=3),
        lambda: D.SpectralNorm([4, 3], 1, 3),
        [_of(4, 3)],
    ),
    "GRUUnit": (lambda: D.GRUUnit("s", 12), lambda: D.GRUUnit(12), [_of(2, 12), _of(2, 4)]),
}


def _first(result: Any) -> Array:
    found: Array = (result[0] if isinstance(result, tuple) else result).numpy()
    return found


@pytest.mark.parametrize("kind", SAME)
def test_a_scope_makes_the_same_layer(kind: str) -> None:
    scoped, sized, values = SAME[kind]
    with D.guard(), fluid.unique_name.guard():
        inputs = [D.to_variable(one) for one in values]
        former, now = scoped(), sized()
        former(*inputs)
        assert [one.name for one in former.parameters()][:1] == ["s_0.w_0"][: kind != "Pool2D"]
        now.set_dict({name: one.numpy() for name, one in former.state_dict().items()})
        assert np.allclose(_first(former(*inputs)), _first(now(*inputs)), atol=1e-6)


def test_ids_of_an_embedding_with_a_scope_end_in_a_size_of_one() -> None:
    with D.guard():
        ids = D.to_variable(np.array([[[1], [2]], [[3], [4]]]))
        table = D.Embedding("s", [10, 4])
        rows = table(ids)
        assert rows.shape == [2, 2, 4]
        assert np.array_equal(rows.numpy().reshape(4, 4), table.weight.numpy()[1:5])
        assert D.Embedding([10, 4])(ids).shape == [2, 2, 1, 4]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_scope_comes_before_the_names_that_parameters_are_given(at_once: bool) -> None:
    given = fluid.ParamAttr(name="weight")
    images = _of(2, 3, 6, 6)
    with D.guard() if at_once else own_programs():
        x = D.to_variable(images) if at_once else fluid.data("x", images.shape)
        first = D.Conv2D("first", num_filters=4, filter_size=3, param_attr=given)
        second = D.Conv2D("second", num_filters=8, filter_size=3, param_attr=given)
        norm = D.BatchNorm("second", 8, param_attr=given, moving_mean_name="mean")
        out = norm(second(first(x)))
        assert list(out.shape) == [2, 8, 2, 2]
        made = [first.weight, second.weight, norm.weight, norm._mean]
        whose = [first, second, norm, norm]
        assert [one.name for one in made] == [
            f"{layer.full_name()}.{name}"
            for layer, name in zip(whose, ["weight", "weight", "weight", "mean"], strict=True)
        ]
        assert given.name == "weight"


class _Net(D.Layer):
    def __init__(self, name_scope: str) -> None:
        super().__init__(name_scope)
        self.conv = D.Conv2D(self.full_name(), num_filters=3, filter_size=3, act="relu")
        self.norm = D.BatchNorm(self.full_name(), 3)
        self.fc = D.FC(self.full_name(), size=4)

    def forward(self, x: Any) -> Any:
        return self.fc(self.norm(self.conv(x)))


def test_a_state_waits_for_the_first_call() -> None:
    images = _of(2, 1, 6, 6)
    with D.guard():
        x, net = D.to_variable(images), _Net("net")
        adam = fluid.optimizer.Adam(0.1)
        losses = []
        for _ in range(3):
            loss = fluid.layers.reduce_mean(fluid.layers.square(net(x)))
            loss.backward()
            adam.minimize(loss)
            net.clear_gradients()
            losses.append(float(loss.numpy()[0]))
        assert losses[2] < losses[0]
        state = {name: one.numpy() for name, one in net.state_dict().items()}
        net.eval()
        other = _Net("net")
        other.eval()
        other.set_dict(state)
        assert np.allclose(other(x).numpy(), net(x).numpy(), atol=1e-6)


def test_what_save_persistables_wrote_waits_for_the_first_call(tmp_path: Path) -> None:
    images, found = _of(2, 1, 6, 6), []
    for second in (False, True):
        with D.guard():
            x, net = D.to_variable(images), _Net("net")
            net.eval()
            if second:
                net.load_dict(D.load_persistables(str(tmp_path))[0])
            found.append(net(x).numpy())
            if not second:
                D.save_persistables(net.state_dict(), str(tmp_path))
    assert np.allclose(*found, atol=1e-6)
    with D.guard():
        other = _Net("other")
        other.eval()
        with pytest.raises(RuntimeError, match="other"):
            other.load_dict(D.load_persistables(str(tmp_path))[0])


def test_an_optimizer_is_told_what_it_trains_where_layers_are_told_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(all_parameters, "_former_layers", 0)
    with D.guard():
        fluid.layers.reduce_mean(D.Linear(3, 2)(D.to_variable(_of(2, 3)))).backward()
        with pytest.raises(AttributeError, match="parameter_list"):
            fluid.optimizer.SGD(0.1).minimize(D.to_variable(_of(1)))


def test_a_state_with_other_names_says_so() -> None:
    with D.guard():
        net = _Net("net")
        with pytest.warns(UserWarning, match="norm.other"):
            net.set_dict({**net.state_dict(), "norm.other": np.zeros(3)})
        net.set_dict({**net.state_dict(), "conv.other": np.zeros(3, "float32")})
        with pytest.raises(RuntimeError, match=r"made parameters \['bias', 'weight'\].*'other'"):
            net(D.to_variable(_of(2, 1, 6, 6)))


def test_a_layer_with_a_scope_builds_programs() -> None:
    with own_programs():
        out = D.Conv2D("s", 6, 5)(fluid.data("x", [-1, 3, 8, 8]))
        names = [one.name for one in fluid.default_main_program().all_parameters()]
        assert list(out.shape) == [-1, 6, 4, 4] and names == ["s_0.w_0", "s_0.b_0"]


class Inner(D.Layer):  # type: ignore[misc,name-defined]
    """Makes layers at its first call, one of which makes its parameters at its own."""

    def __init__(self) -> None:
        super().__init__("inner")
        self.scale = self.create_parameter([1], dtype="float32")

    def _build_once(self, x: Any) -> None:
        self.narrow = D.Linear(x.shape[1], 2)
        self.wide = D.FC("wide", 4)

    def forward(self, x: Any) -> Any:
        return self.wide(self.narrow(x)) * self.scale


class Outer(D.Layer):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__("outer")
        self.inner = Inner()

    def forward(self, x: Any) -> Any:
        return self.inner(x)


@pytest.mark.parametrize("by_attributes", [True, False])
def test_a_state_waits_for_layers_that_are_made_at_the_first_call(by_attributes: bool) -> None:
    with D.guard():
        x = D.to_variable(_of(3, 5))
        with fluid.unique_name.guard():
            one = Outer()
            expected = one(x).numpy()
        state = one.state_dict()
        assert len(state) == 5
        if not by_attributes:
            state = {var.name: var for var in state.values()}
        with fluid.unique_name.guard():
            other = Outer()
            other.set_dict(state, use_structured_name=by_attributes)
            assert np.array_equal(other(x).numpy(), expected)
