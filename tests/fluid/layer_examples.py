"""Short programs around single layers, keyed by the recording of the same program by Fluid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refluid import fluid

L = fluid.layers
Build = Callable[[], Any]


def x(*shape: int, name: str = "x", dtype: str = "float32") -> fluid.Variable:
    """A fed variable whose data are checked."""
    return fluid.data(name=name, shape=list(shape), dtype=dtype)


def free(*shape: int, name: str = "x", dtype: str = "float32") -> fluid.Variable:
    """A fed variable whose data are not checked."""
    return L.data(name=name, shape=list(shape), dtype=dtype, append_batch_size=False)


def _pair(dtype: str = "float32", *shapes: tuple[int, ...]) -> tuple[Any, Any]:
    return x(*shapes[0], dtype=dtype), x(*shapes[-1], name="y", dtype=dtype)


def _sides() -> tuple[Any, Any, Any]:
    return tuple(x(-1, 1, name=name) for name in ("label", "left", "right"))  # type: ignore[return-value]


def _ints(*values: Any) -> fluid.Variable:
    return L.assign(np.array(values, dtype="int32"))


def _assign() -> None:
    data = L.fill_constant(shape=[3, 2], value=2.5, dtype="float64")
    L.assign(data, L.create_tensor(dtype="float64"))
    L.assign(data)
    L.assign(np.full((3, 2), 2.5, dtype="float32"))


def _compare(layer: Any, first: list[int], second: list[int], overload: Any) -> None:
    a, b = _ints(*first), _ints(*second)
    layer(x=a, y=b)
    overload(a, b)


def _switch() -> None:
    rate = L.create_global_var([1], 0.0, "float32", persistable=True, name="learning_rate")
    zero = L.fill_constant(shape=[1], dtype="float32", value=0.0)
    one = L.fill_constant(shape=[1], dtype="float32", value=1.0)
    two = L.fill_constant(shape=[1], dtype="float32", value=2.0)
    step = L.autoincreased_step_counter(counter_name="@LR_DECAY_COUNTER@", begin=0, step=1)
    with L.Switch() as switch:
        with switch.case(step == zero):
            L.assign(input=one, output=rate)
        with switch.default():
            L.assign(input=two, output=rate)


def _embedding() -> None:
    ids = x(-1, 1, dtype="int64")
    fluid.embedding(ids, size=(128, 64))
    table = np.random.RandomState(0).random_sample((128, 100)).astype("float32")
    attr = fluid.ParamAttr(
        name="emb_weight",
        learning_rate=0.5,
        trainable=True,
        initializer=fluid.initializer.NumpyArrayInitializer(table),
    )
    L.embedding(ids, size=(128, 100), param_attr=attr)


def _expand() -> None:
    L.expand(L.fill_constant([2, 3, 1], "int32", 0), expand_times=[1, 2, 2])
    wide = L.fill_constant([12, 14], "int32", 3)
    L.expand(wide, expand_times=L.fill_constant([2], "int32", 4))


def _fill_constant() -> None:
    out = L.fill_constant([2, 1], "int64", 0)
    L.fill_constant([2, 1], "int64", 5, out=out)
    two = L.fill_constant([1], "int32", 2)
    L.fill_constant([1, two], "float32", 1.5)
    L.fill_constant(L.fill_constant([1, 2], "int32", 2), "bool", True)
    L.fill_constant([2, 1], "float32", L.fill_constant([1], "float32", 2.0))


def _random(layer: Any) -> None:
    layer(shape=[3, 4])
    layer(shape=[L.fill_constant([1], "int64", 3), L.fill_constant([1], "int32", 5)])
    layer(x(2, name="var_shape", dtype="int64"))
    layer(x(2, name="var_shape_int32", dtype="int32"))


def _cast() -> None:
    var = x(2, 2)
    L.cast(var, dtype="uint8")
    L.cast(var, dtype=np.int32)


def _eye() -> None:
    L.eye(3, dtype="int32")
    L.eye(2, 3, dtype="int32")
    L.eye(2, batch_shape=[3])


def _linspace() -> None:
    L.linspace(0, 10, 5, "float32")
    L.linspace(0, 10, 1, "float32")


def _reduction(layer: Any) -> None:
    a, b = _pair("float32", (2, 4), (2, 2, 2))
    layer(a)
    layer(a, dim=0)
    layer(a, dim=-1)
    layer(a, dim=1, keep_dim=True)
    layer(b, dim=[1, 2])
    layer(b, dim=[0, 1])


def _reduce_all() -> None:
    a = L.cast(_ints([1, 0], [1, 1]), "bool")
    L.reduce_all(a)
    L.reduce_all(a, dim=0)
    L.reduce_all(a, dim=-1)
    L.reduce_all(a, dim=1, keep_dim=True)


def _slice() -> None:
    var, axes = x(4, 5, 6, name="input"), [0, 1, 2]
    L.slice(var, axes=axes, starts=[-3, 0, 2], ends=[3, 2, 4])
    minus = L.fill_constant([1], "int32", -3)
    L.slice(var, axes=axes, starts=[minus, 0, 2], ends=[3, 2, 4])


def _strided_slice() -> None:
    var, axes = x(3, 4, 5, 6, name="input"), [0, 1, 2]
    L.strided_slice(var, axes, [-3, 0, 2], [3, 2, 4], [1, 1, 1])
    minus = L.fill_constant([1], "int32", -3)
    L.strided_slice(var, axes, [minus, 0, 2], [3, 2, 4], [1, 1, 2])


def _stack() -> None:
    a, b = (x(-1, 1, 2, name=name, dtype="int32") for name in ("x1", "x2"))
    L.stack([a, b])
    L.stack([a, b], axis=1)
    L.stack(a)


def _sums() -> None:
    a, b, c, out = (L.fill_constant([16, 32], "int64", value) for value in (1, 2, 3, 0))
    L.sums(input=[a, b, c])
    L.sums(input=[a, b, c], out=out)


def _topk() -> None:
    L.topk(x(-1, 13, 11, name="input"), k=5)
    L.topk(x(-1, 13, name="input1"), k=5)
    deep, k = x(-1, 13, 11, name="input2"), x(-1, 1, name="vk", dtype="int32")
    L.topk(deep, k=k)


def _where() -> None:
    for mask in ([1, 0, 1], [[1, 0], [0, 1]], [0, 0, 0]):
        L.where(L.cast(_ints(*mask), "bool"))


def _like() -> None:
    ten = L.fill_constant([1, 2], "int64", 10)
    L.fill_constant_batch_size_like(input=ten, shape=[1], value=0, dtype="int64")


def _uniform_like() -> None:
    var = x(1, 3, name="input")
    L.uniform_random_batch_size_like(var, [2, 4])
    L.uniform_random_batch_size_like(var, [2, 4], input_dim_idx=1, output_dim_idx=1)


def _pow() -> None:
    var = x(32, 32)
    L.pow(var, factor=2.0)
    L.pow(var, factor=L.fill_constant([1], "float32", 3.0))


def _hidden(act: str | None = None, size: int = 200) -> fluid.Variable:
    return L.fc(input=x(3, 7, 3, 7), size=size, param_attr="fc1.w", act=act)


def _softmax_loss() -> None:
    data, label = x(-1, 128, name="data"), x(-1, 1, name="label", dtype="int64")
    L.softmax_with_cross_entropy(logits=L.fc(input=data, size=100), label=label)


def _cross_entropy() -> None:
    data, label = x(-1, 3, 10), x(-1, 1, name="label", dtype="int64")
    L.cross_entropy(input=L.fc(input=data, size=7, act="softmax"), label=label)


def _prelu() -> None:
    attr = fluid.ParamAttr(name="alpha")
    L.prelu(x(-1, 5, 10, 10), mode="channel", param_attr=attr)


def _logits() -> None:
    data = x(10, name="data")
    L.sigmoid_cross_entropy_with_logits(x=data, label=data, ignore_index=-1, normalize=True)


def _scale_by_variable() -> None:
    var = free(-1, 2, 3)
    L.scale(var, scale=free(1, name="scale"), bias=1.0)


def _equal() -> None:
    L.elementwise_equal(_ints(3, 3), _ints(3, 2))


def _learned(initializer: Any, data: Build) -> None:
    L.fc(input=data(), size=10, param_attr=initializer)


PLAIN = "asin cos floor logsigmoid reciprocal sigmoid sin softsign sqrt tanh tanh_shrink abs"
EXAMPLES: dict[str, Build] = {
    "Switch-1": _switch,
    "assign-0": _assign,
    "autoincreased_step_counter-0": lambda: L.autoincreased_step_counter(
        counter_name="@LR_DECAY_COUNTER@", begin=0, step=1
    ),
    "batch_norm-0": lambda: L.batch_norm(_hidden()),
    "cast-0": _cast,
    "clip-0": lambda: L.clip(x(1, name="data"), min=-1.0, max=1.0),
    "clip_by_norm-0": lambda: L.clip_by_norm(x(-1, 1, name="data"), max_norm=1.0),
    "conv2d-0": lambda: L.conv2d(x(-1, 3, 32, 32, name="data"), 2, 3, act="relu"),
    "conv2d_transpose-0": lambda: L.conv2d_transpose(
        x(-1, 3, 32, 32, name="data"), num_filters=2, filter_size=3
    ),
    "create_global_var-0": lambda: L.create_global_var(
        [2, 3], 1.0, "float32", persistable=True, force_cpu=True, name="new_var"
    ),
    "create_parameter-0": lambda: L.create_parameter(shape=[784, 200], dtype="float32"),
    "cross_entropy-0": _cross_entropy,
    "data-0": lambda: L.data(name="x", shape=[784], dtype="float32"),
    "dropout-0": lambda: L.dropout(x(-1, 32, 32, name="data"), dropout_prob=0.5),
    "elementwise_add-0": lambda: L.elementwise_add(*_pair("float32", (3,))),
    "elementwise_add-1": lambda: L.elementwise_add(*_pair("float32", (2, 3, 4, 5), (3, 4)), axis=1),
    "elementwise_add-2": lambda: L.elementwise_add(*_pair("float32", (2, 3, 4, 5), (5,)), axis=3),
    "elementwise_equal-0": _equal,
    "elementwise_floordiv-0": lambda: L.elementwise_floordiv(*_pair("int32", (3,))),
    "elementwise_pow-0": lambda: L.elementwise_pow(*_pair("float32", (3,))),
    "embedding-0": _embedding,
    "expand-0": _expand,
    "expand_as-0": lambda: L.expand_as(
        x=free(-1, 10, name="data", dtype="float64"),
        target_tensor=free(-1, 20, name="target_tensor", dtype="float64"),
    ),
    "eye-0": _eye,
    "fill_constant-0": _fill_constant,
    "fill_constant_batch_size_like-0": _like,
    "flatten-0": lambda: L.flatten(x(4, 4, 3), axis=2),
    "full_like-0": lambda: L.full_like(x(2, 3, name="input"), 2.0),
    "gather-0": lambda: L.gather(x(-1, 5), x(-1, 1, name="index", dtype="int32")),
    "gather_nd-0": lambda: L.gather_nd(x(3, 4, 5), x(2, 2, name="index", dtype="int32")),
    "gaussian_random-0": lambda: _random(L.gaussian_random),
    "gaussian_random-1": lambda: L.gaussian_random((2, 3), std=2.0, seed=10),
    "gelu-0": lambda: L.gelu(x(-1, 3)),
    "greater_equal-0": lambda: _compare(L.greater_equal, [2, 2], [2, 3], lambda a, b: a >= b),
    "greater_than-0": lambda: _compare(L.greater_than, [2, 3], [3, 2], lambda a, b: a > b),
    "less_equal-0": lambda: _compare(L.less_equal, [1, 3], [1, 2], lambda a, b: a <= b),
    "hard_shrink-0": lambda: L.hard_shrink(L.data("input", [784]), threshold=0.3),
    "hard_swish-0": lambda: L.hard_swish(x(-1, 1, 4)),
    "has_inf-0": lambda: L.has_inf(L.data("input", [4, 32, 32])),
    "has_nan-0": lambda: L.has_nan(L.data("input", [4, 32, 32])),
    "increment-0": lambda: L.increment(L.fill_constant([1], "float32", 0.0)),
    "isfinite-0": lambda: L.isfinite(L.data("data", [4, 6])),
    "l2_normalize-0": lambda: L.l2_normalize(x(2, 3, name="input"), axis=0),
    "layer_norm-0": lambda: L.layer_norm(x(-1, 32, 32)),
    "leaky_relu-0": lambda: L.leaky_relu(free(-1, 2), alpha=0.1),
    "less_than-0": lambda: L.less_than(
        free(-1, 2, dtype="float64"), free(-1, 2, name="y", dtype="float64")
    ),
    "linspace-0": _linspace,
    **{
        f"logical_{kind}-0": lambda kind=kind: getattr(L, f"logical_{kind}")(
            free(-1, 2, dtype="bool"), free(-1, 2, name="y", dtype="bool")
        )
        for kind in ("and", "or", "xor")
    },
    "margin_rank_loss-0": lambda: L.margin_rank_loss(*_sides()),
    "mean-0": lambda: L.mean(L.data("data", [2, 3])),
    "not_equal-0": lambda: L.not_equal(
        L.data("label", [1], dtype="int64"), L.fill_constant([1], "int64", 1)
    ),
    "ones-0": lambda: L.ones([2, 4], "float32"),
    "ones_like-0": lambda: L.ones_like(free(3)),
    "pad-0": lambda: L.pad(x(300, 300, name="data"), [0, 1, 1, 2]),
    "pow-0": _pow,
    "prelu-0": _prelu,
    "rank-0": lambda: L.rank(x(3, 100, 100, name="input")),
    "rank_loss-0": lambda: L.rank_loss(*_sides()),
    "reduce_all-0": _reduce_all,
    **{
        f"reduce_{kind}-0": lambda kind=kind: _reduction(getattr(L, f"reduce_{kind}"))
        for kind in ("mean", "min", "prod", "sum")
    },
    "scale-0": lambda: L.scale(free(-1, 2, 3), scale=2.0, bias=1.0),
    "scale-1": _scale_by_variable,
    "selu-0": lambda: L.selu(free(-1, 2, 2)),
    "shape-0": lambda: L.shape(L.data("x", [3, 100, 100])),
    "sigmoid_cross_entropy_with_logits-0": _logits,
    "sign-0": lambda: L.sign(L.assign(np.array([3.0, 0.0, -2.0], dtype="float32"))),
    "size-0": lambda: L.size(free(3, 100, name="input")),
    "slice-0": _slice,
    "soft_relu-0": lambda: L.soft_relu(free(-1, 2, 2), threshold=20.0),
    "softmax_with_cross_entropy-0": _softmax_loss,
    "square_error_cost-0": lambda: L.square_error_cost(x(1, name="input"), x(1, name="label")),
    "stack-0": _stack,
    "stanh-0": lambda: L.stanh(x(-1, 3, name="input"), scale_a=0.67, scale_b=1.72),
    "strided_slice-0": _strided_slice,
    "sums-0": _sums,
    "thresholded_relu-0": lambda: L.thresholded_relu(x(-1, 3), threshold=0.1),
    "topk-0": _topk,
    "transpose-0+py3": lambda: L.transpose(free(2, 3, 4), perm=[1, 0, 2]),
    "uniform_random-0": lambda: _random(L.uniform_random),
    "uniform_random_batch_size_like-0": _uniform_like,
    "unstack-0": lambda: L.unstack(x(2, 3, 5), axis=1),
    "where-0": _where,
    "zeros-0": lambda: L.zeros([3, 2], "float32"),
    "round-1": lambda: L.round(x(-1, 4)),
    **{f"{name}-0": lambda name=name: getattr(L, name)(x(-1, 4)) for name in PLAIN.split()},
}
EXAMPLES = {f"layers.{name}": build for name, build in EXAMPLES.items()} | {
    "nets.glu-0": lambda: fluid.nets.glu(x(-1, 6, 3, 9, name="words"), dim=1),
    "one_hot-0": lambda: fluid.one_hot(x(4, name="label", dtype="int64"), depth=4),
    "initializer.MSRA-0": lambda: _learned(
        fluid.initializer.MSRA(uniform=False), lambda: x(8, 32, 32, name="data")
    ),
    "initializer.Uniform-0": lambda: _learned(
        fluid.initializer.Uniform(low=-0.5, high=0.5), lambda: x(-1, 1)
    ),
}
