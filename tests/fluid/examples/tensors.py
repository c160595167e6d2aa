"""Creating, copying, reshaping and cutting tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid import fluid
from tests.fluid.examples.feeds import Build, free, ints, x

L = fluid.layers


def _assign() -> None:
    data = L.fill_constant(shape=[3, 2], value=2.5, dtype="float64")
    L.assign(data, L.create_tensor(dtype="float64"))
    L.assign(data)
    L.assign(np.full((3, 2), 2.5, dtype="float32"))


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


def _topk() -> None:
    L.topk(x(-1, 13, 11, name="input"), k=5)
    L.topk(x(-1, 13, name="input1"), k=5)
    deep, k = x(-1, 13, 11, name="input2"), x(-1, 1, name="vk", dtype="int32")
    L.topk(deep, k=k)


def _where() -> None:
    for mask in ([1, 0, 1], [[1, 0], [0, 1]], [0, 0, 0]):
        L.where(L.cast(ints(*mask), "bool"))


def _like() -> None:
    ten = L.fill_constant([1, 2], "int64", 10)
    L.fill_constant_batch_size_like(input=ten, shape=[1], value=0, dtype="int64")


def _uniform_like() -> None:
    var = x(1, 3, name="input")
    L.uniform_random_batch_size_like(var, [2, 4])
    L.uniform_random_batch_size_like(var, [2, 4], input_dim_idx=1, output_dim_idx=1)


EXAMPLES: dict[str, Build] = {
    "layers.assign-0": _assign,
    "layers.cast-0": _cast,
    "layers.create_global_var-0": lambda: L.create_global_var(
        [2, 3], 1.0, "float32", persistable=True, force_cpu=True, name="new_var"
    ),
    "layers.expand-0": _expand,
    "layers.expand_as-0": lambda: L.expand_as(
        x=free(-1, 10, name="data", dtype="float64"),
        target_tensor=free(-1, 20, name="target_tensor", dtype="float64"),
    ),
    "layers.eye-0": _eye,
    "layers.fill_constant-0": _fill_constant,
    "layers.fill_constant_batch_size_like-0": _like,
    "layers.flatten-0": lambda: L.flatten(x(4, 4, 3), axis=2),
    "layers.full_like-0": lambda: L.full_like(x(2, 3, name="input"), 2.0),
    "layers.gather-0": lambda: L.gather(x(-1, 5), x(-1, 1, name="index", dtype="int32")),
    "layers.gather_nd-0": lambda: L.gather_nd(x(3, 4, 5), x(2, 2, name="index", dtype="int32")),
    "layers.gaussian_random-0": lambda: _random(L.gaussian_random),
    "layers.gaussian_random-1": lambda: L.gaussian_random((2, 3), std=2.0, seed=10),
    "layers.increment-0": lambda: L.increment(L.fill_constant([1], "float32", 0.0)),
    "layers.linspace-0": _linspace,
    "layers.ones-0": lambda: L.ones([2, 4], "float32"),
    "layers.ones_like-0": lambda: L.ones_like(free(3)),
    "layers.pad-0": lambda: L.pad(x(300, 300, name="data"), [0, 1, 1, 2]),
    "layers.rank-0": lambda: L.rank(x(3, 100, 100, name="input")),
    "layers.shape-0": lambda: L.shape(L.data("x", [3, 100, 100])),
    "layers.size-0": lambda: L.size(free(3, 100, name="input")),
    "layers.slice-0": _slice,
    "layers.stack-0": _stack,
    "layers.strided_slice-0": _strided_slice,
    "layers.topk-0": _topk,
    "layers.transpose-0+py3": lambda: L.transpose(free(2, 3, 4), perm=[1, 0, 2]),
    "layers.uniform_random-0": lambda: _random(L.uniform_random),
    "layers.uniform_random_batch_size_like-0": _uniform_like,
    "layers.unstack-0": lambda: L.unstack(x(2, 3, 5), axis=1),
    "layers.where-0": _where,
    "layers.zeros-0": lambda: L.zeros([3, 2], "float32"),
}
