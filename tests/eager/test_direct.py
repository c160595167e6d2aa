"""Operators without plans: what plans give, whatever is changed from one call to the next."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.build import op, using
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.core.places import CPUPlace
from refluid.eager import Eager, VarBase, shortcuts
from refluid.fluid import dygraph
from refluid.ops.registry import with_fact

layers = fluid.layers
Array = np.ndarray


def variable(value: Array, *, takes: bool) -> VarBase:
    made = VarBase(torch.from_numpy(value.copy()))
    made.stop_gradient = not takes
    return made


def ids(x: Any, axis: int) -> VarBase:
    """A class along `axis` for each of the others."""
    shape = list(x.shape)
    classes, shape[axis] = shape[axis], 1
    return VarBase(torch.arange(math.prod(shape)).reshape(shape) % classes, stop_gradient=True)


# Of two variables of one shape (rows, 2 * columns, 3), positive, and a source of attributes.
LAYERS: dict[str, Callable[[Any, Any, random.Random], Any]] = {
    "add": lambda x, y, _: x + y,
    "sub": lambda x, y, _: x - y,
    "mul": lambda x, y, _: x * y,
    "div": lambda x, y, _: x / y,
    "rows": lambda x, y, _: layers.elementwise_add(x, layers.reduce_sum(y, dim=[1, 2]), axis=0),
    "columns": lambda x, y, _: layers.elementwise_mul(x, layers.reduce_mean(y, dim=[0, 2]), axis=1),
    "low first": lambda x, y, _: layers.elementwise_sub(layers.reduce_sum(x, dim=[0, 1]), y),
    "number": lambda x, _, source: x * source.choice([2.0, -1.5, 0.0, -0.0, 3]) + source.random(),
    "reversed": lambda x, _, source: source.choice([1.0, 2.0]) - source.choice([1, 2.5]) / x,
    "relu": lambda x, y, _: layers.relu(x - y),
    "sigmoid": lambda x, _, __: layers.sigmoid(x),
    "tanh": lambda x, _, __: layers.tanh(x),
    "square": lambda x, _, __: layers.square(x),
    "exp": lambda x, _, __: layers.exp(x),
    "sqrt": lambda x, _, __: layers.sqrt(x),
    "reciprocal": lambda x, _, __: layers.reciprocal(x),
    "leaky": lambda x, y, source: layers.leaky_relu(x - y, source.choice([0.1, 0.3])),
    "pow": lambda x, _, source: layers.pow(x, source.choice([2.0, 0.5])),
    "softmax": lambda x, _, source: layers.softmax(x, axis=source.choice([-1, 1])),
    "matmul": lambda x, y, source: layers.matmul(
        x, y, transpose_y=True, alpha=source.choice([1.0, 0.5])
    ),
    "transposed": lambda x, y, _: layers.matmul(x, y, transpose_x=True),
    "fc": lambda x, y, _: (
        layers.mul(x, layers.transpose(y, [1, 2, 0]), 2, 2)
        if x.shape[2] * x.shape[1] == 0
        else layers.mul(layers.flatten(x), layers.transpose(layers.flatten(y), [1, 0]))
    ),
    "mean": lambda x, y, _: layers.mean(x) * layers.mean(y),
    "reduce": lambda x, _, source: layers.reduce_sum(
        x, dim=source.choice([[0], [1, 2], [-1]]), keep_dim=source.random() < 0.5
    ),
    "reshape": lambda x, _, source: layers.reshape(x, source.choice([[-1], [0, -1], [0, 0, -1]])),
    "squeeze": lambda x, _, __: layers.squeeze(layers.unsqueeze(x, [1]), [1]),
    "stack": lambda x, y, source: layers.stack([x, y], axis=source.choice([0, 1])),
    "unstack": lambda x, y, _: layers.unstack(x * y, axis=2)[1],
    "concat": lambda x, y, source: layers.concat([x, y, x], axis=source.choice([0, 1, 2])),
    "split": lambda x, y, _: layers.split(x * y, 2, dim=1)[1],
    "slice": lambda x, _, source: layers.slice(x, [1], [source.choice([0, 1])], [1000]),
    "index": lambda x, _, __: x[:, 1:, 2],
    "expand": lambda x, _, source: layers.expand(x, [1, source.choice([1, 2]), 2]),
    "sum": lambda x, y, _: layers.sums([x, y, x]),
    "cast": lambda x, _, __: layers.cast(layers.cast(x, "float64"), "float32"),
    "layer_norm": lambda x, _, source: layers.layer_norm(
        x, scale=False, shift=False, begin_norm_axis=source.choice([1, 2])
    ),
    "cross entropy": lambda x, _, __: layers.softmax_with_cross_entropy(
        rows := layers.reshape(x, [-1, 3]), ids(rows, -1)
    ),
    "loss by rank": lambda x, _, source: layers.softmax_with_cross_entropy(
        x, ids(x, axis := source.choice([-1, 1, 2])), axis=axis
    ),
    "ignored labels": lambda x, _, source: layers.softmax_with_cross_entropy(
        rows := layers.reshape(x, [-1, 3]), ids(rows, -1), ignore_index=source.choice([0, 1])
    ),
    "linear": lambda x, y, source: op(
        "fused_gemm_epilogue",
        {
            "X": source.choice([x, layers.reshape(x, [-1, 3])]),
            "Y": (weight := layers.reshape(y, [3, -1])),
            "Bias": layers.reduce_sum(weight, dim=[0]),
        },
        {"x_num_col_dims": -1, "activation": source.choice(["", "relu", "tanh", "sigmoid"])},
    ),
    "linear, transposed": lambda x, y, source: op(
        "fused_gemm_epilogue",
        {
            "X": layers.reshape(x, [-1, 3]),
            "Y": (weight := layers.reshape(y, [-1, 3])),
            "Bias": layers.reduce_sum(weight, dim=[1]),
        },
        {"x_num_col_dims": -1, "trans_y": True, "activation": source.choice(["", "relu"])},
    ),
    "kept": lambda x, y, _: layers.elementwise_max(x, y),
    "dropped": lambda x, _, __: layers.dropout(x, 0.0, dropout_implementation="upscale_in_train"),
    "clip": lambda x, _, source: layers.clip(x, source.choice([0.2, 0.4]), 0.9),
    "label": lambda x, y, _: layers.square_error_cost(x, y),
}


def results(layer: Callable[..., Any], values: list[Array], takes: list[bool], seed: int) -> Any:
    given = [variable(one, takes=one_takes) for one, one_takes in zip(values, takes, strict=True)]
    out = layer(*given, random.Random(seed))
    if not out.stop_gradient:
        layers.reduce_sum(out * out * out).backward()
    return [out.numpy(), *(one.gradient() for one in given)]


@pytest.mark.parametrize("name", LAYERS)
def test_calls_without_plans_are_those_of_plans(name: str) -> None:
    source, planned, direct = random.Random(name), Eager(CPUPlace()), Eager(CPUPlace())
    for _ in range(16):
        shape = (source.randint(1, 4), 2 * source.randint(1, 3), 3)
        numbers = np.random.RandomState(source.randrange(1000))
        values = [numbers.uniform(0.1, 1.0, shape).astype("float32") for _ in range(2)]
        takes, seed = source.choices([True, False], k=2), source.randrange(4)
        with using(direct):
            found = results(LAYERS[name], values, takes, seed)
        with flags.override({"FLAGS_refluid_eager_direct": False}), using(planned):
            wanted = results(LAYERS[name], values, takes, seed)
        for one, other in zip(found, wanted, strict=True):
            assert (one is None) == (other is None), (shape, takes)
            if one is not None:
                assert one.dtype == other.dtype and one.shape == other.shape
                size = max(1.0, float(np.abs(other).max()))
                np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6 * size)
        same = np.array_equal(found[0], wanted[0]) or "linear" in name  # MKL may add a bias first
        assert same or name in ("cross entropy", "loss by rank", "ignored labels")


def test_layers_of_the_list_are_called_without_plans() -> None:
    """Else the tests above would compare plans with plans."""
    missed: list[str] = []

    class Watched(Eager):
        def run(self, type: str, *rest: Any) -> None:
            missed.append(type)
            super().run(type, *rest)

    with using(Watched(CPUPlace())):
        values = [np.full((2, 4, 3), 0.5, "float32")] * 2
        for layer in LAYERS.values():
            for _ in range(2):
                missed.clear()
                results(layer, values, [True, True], 1)
            assert not missed


# By recordings and in test_kept_calls: those without a 2 have the same body.
ELSEWHERE = """
    bmm conv2d depthwise_conv2d flatten lookup_table lookup_table_v2 minus reshape squeeze
    transpose unsqueeze
"""
HERE = """
    cast concat dropout elementwise_add elementwise_div elementwise_mul elementwise_sub exp expand
    flatten2 fused_gemm_epilogue layer_norm matmul mean mul reciprocal reduce_mean reduce_sum relu
    reshape2 scale sigmoid slice split sqrt square squeeze2 stack sum tanh transpose2 unsqueeze2
    unstack
"""


def test_every_operator_whose_gradient_is_torchs_is_compared() -> None:
    assert with_fact("by_autograd") == {*ELSEWHERE.split(), *HERE.split()}


def test_numbers_may_change_with_every_call() -> None:
    now, made = Eager(CPUPlace()), 0
    x = variable(np.array([1.0, -2.0], "float32"), takes=False)
    with using(now):
        for number in [2.0, 2, -0.0, 0.0, math.nan, math.inf, 1e-30, *np.linspace(0, 1, 30)]:
            for value in (number, -number):
                found = layers.scale(x, float(value)).numpy()
                wanted = np.array([1.0, -2.0], "float32") * np.float32(value)
                np.testing.assert_array_equal(found, wanted)
                assert math.isnan(value) or np.array_equal(np.signbit(found), np.signbit(wanted))
                made += 1
        assert len(now._calls) == 1, "one plan for all of them"
        with pytest.raises(Exception, match="dropout_prob"):
            layers.dropout(x, 0.5)
            layers.dropout(x, 1.5)


def test_a_number_with_a_point_is_no_whole_one() -> None:
    x = variable(np.arange(6, dtype="float32").reshape(2, 3), takes=False)
    with using(Eager(CPUPlace())):
        for axis in (0, 1, 1, 0):
            found = layers.concat([x, x], axis=axis).numpy()
            assert found.shape == ((4, 3), (2, 6))[axis]
        for axis in (1.0, 1.5):
            with pytest.raises((TypeError, ValueError, EnforceNotMet)):
                layers.softmax(x, axis=axis).numpy()
                if axis == 1.0:
                    raise ValueError("taken as a whole number, as by plans")


def test_errors_are_those_of_plans() -> None:
    x, y = (variable(np.ones((2, n), "float32"), takes=True) for n in (3, 4))
    for call in (lambda: x + y, lambda: layers.matmul(x, y), lambda: layers.concat([x, y], axis=0)):
        told = []
        for direct in (True, False):
            with flags.override({"FLAGS_refluid_eager_direct": direct}), using(Eager(CPUPlace())):
                layers.concat([x + x, x], axis=0)
                layers.matmul(x, x, transpose_y=True)
                with pytest.raises(EnforceNotMet) as caught:
                    call()
            told.append(str(caught.value).splitlines()[0])
        assert told[0] == told[1]


def test_gradients_stop_where_they_are_told_to() -> None:
    with dygraph.guard():
        for _ in range(3):
            x = dygraph.to_variable(np.ones((2, 2), "float32"))
            x.stop_gradient = False
            y = x * 2.0
            y.stop_gradient = True
            z = y + x
            with dygraph.no_grad():
                apart = z * 5.0
            assert apart.stop_gradient and not z.stop_gradient and y.stop_gradient
            (z * apart.detach()).backward()
            assert x.gradient().tolist() == [[15.0, 15.0], [15.0, 15.0]]
            assert y.gradient() is None and z.gradient() is not None


def test_results_that_are_still_there_have_gradients() -> None:
    with dygraph.guard():
        for _ in range(3):
            x = dygraph.to_variable(np.ones((2, 2), "float32"))
            x.stop_gradient = False
            kept = layers.tanh(x)
            layers.reduce_sum(layers.exp(layers.tanh(kept))).backward()
            value = kept.numpy()
            wanted = np.exp(np.tanh(value)) * (1 - np.tanh(value) ** 2)
            np.testing.assert_allclose(kept.gradient(), wanted, rtol=1e-5)


def test_results_that_are_gone_are_not_remembered() -> None:
    from refluid.eager.live import live

    with dygraph.guard():
        x = dygraph.to_variable(np.ones((2, 2), "float32"))
        x.stop_gradient = False
        for _ in range(20_000):
            layers.tanh(x)
    assert len(live._made) < 10_000


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortcuts, "_MOST", 8)
    x, now = variable(np.ones((2, 2), "float32"), takes=True), Eager(CPUPlace())
    with using(now):
        for number in range(100):
            layers.scale(x, number / 7)
            layers.expand(x, [1, number + 1])
            assert len(now._shortcuts._known) <= 8
        assert layers.scale(x, 3.0).numpy().tolist() == [[3.0, 3.0], [3.0, 3.0]]


@pytest.mark.parametrize("axis", [-1, 1, 2])
def test_losses_of_labels_without_softmax(axis: int) -> None:
    """Of whole numbers at random, some to be ignored, gradients too."""
    source = np.random.RandomState(axis + 1)
    for ignore in (-100, 0, 2):
        shape = [3, 4, 5]
        sizes = [1 if place == axis % 3 else size for place, size in enumerate(shape)]
        labels = source.randint(0, shape[axis], sizes)
        labels.flat[1] = ignore
        value, found = source.randn(*shape).astype("float32"), []
        for direct in (True, False):
            with flags.override({"FLAGS_refluid_eager_direct": direct}), using(Eager(CPUPlace())):
                for _ in range(2):
                    x, y = variable(value, takes=True), variable(labels, takes=False)
                    loss = layers.softmax_with_cross_entropy(x, y, ignore_index=ignore, axis=axis)
                    layers.mean(loss * loss).backward()
                    found.append((loss.numpy(), x.gradient()))
        for loss, gradient in found[:-1]:
            np.testing.assert_allclose(loss, found[-1][0], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(gradient, found[-1][1], rtol=1e-5, atol=1e-7)
