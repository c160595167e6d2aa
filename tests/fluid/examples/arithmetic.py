"""Arithmetic, comparisons, reductions, activations and losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid import fluid
from tests.fluid.examples.feeds import Build, free, ints, pair, sides, x

L = fluid.layers


def _compare(layer: Any, first: list[int], second: list[int], overload: Any) -> None:
    a, b = ints(*first), ints(*second)
    layer(x=a, y=b)
    overload(a, b)


def _reduction(layer: Any) -> None:
    a, b = pair("float32", (2, 4), (2, 2, 2))
    layer(a)
    layer(a, dim=0)
    layer(a, dim=-1)
    layer(a, dim=1, keep_dim=True)
    layer(b, dim=[1, 2])
    layer(b, dim=[0, 1])


def _reduce_all() -> None:
    a = L.cast(ints([1, 0], [1, 1]), "bool")
    L.reduce_all(a)
    L.reduce_all(a, dim=0)
    L.reduce_all(a, dim=-1)
    L.reduce_all(a, dim=1, keep_dim=True)


def _sums() -> None:
    a, b, c, out = (L.fill_constant([16, 32], "int64", value) for value in (1, 2, 3, 0))
    L.sums(input=[a, b, c])
    L.sums(input=[a, b, c], out=out)


def _pow() -> None:
    var = x(32, 32)
    L.pow(var, factor=2.0)
    L.pow(var, factor=L.fill_constant([1], "float32", 3.0))


def _scale_by_variable() -> None:
    var = free(-1, 2, 3)
    L.scale(var, scale=free(1, name="scale"), bias=1.0)


def _equal() -> None:
    L.elementwise_equal(ints(3, 3), ints(3, 2))


PLAIN = "asin cos floor logsigmoid reciprocal sigmoid sin softsign sqrt tanh tanh_shrink abs"
EXAMPLES: dict[str, Build] = {
    "layers.clip-0": lambda: L.clip(x(1, name="data"), min=-1.0, max=1.0),
    "layers.clip_by_norm-0": lambda: L.clip_by_norm(x(-1, 1, name="data"), max_norm=1.0),
    "layers.elementwise_add-0": lambda: L.elementwise_add(*pair("float32", (3,))),
    "layers.elementwise_add-1": lambda: L.elementwise_add(
        *pair("float32", (2, 3, 4, 5), (3, 4)), axis=1
    ),
    "layers.elementwise_add-2": lambda: L.elementwise_add(
        *pair("float32", (2, 3, 4, 5), (5,)), axis=3
    ),
    "layers.elementwise_equal-0": _equal,
    "layers.elementwise_floordiv-0": lambda: L.elementwise_floordiv(*pair("int32", (3,))),
    "layers.elementwise_pow-0": lambda: L.elementwise_pow(*pair("float32", (3,))),
    "layers.gelu-0": lambda: L.gelu(x(-1, 3)),
    "layers.greater_equal-0": lambda: _compare(
        L.greater_equal, [2, 2], [2, 3], lambda a, b: a >= b
    ),
    "layers.greater_than-0": lambda: _compare(L.greater_than, [2, 3], [3, 2], lambda a, b: a > b),
    "layers.less_equal-0": lambda: _compare(L.less_equal, [1, 3], [1, 2], lambda a, b: a <= b),
    "layers.hard_shrink-0": lambda: L.hard_shrink(L.data("input", [784]), threshold=0.3),
    "layers.hard_swish-0": lambda: L.hard_swish(x(-1, 1, 4)),
    "layers.has_inf-0": lambda: L.has_inf(L.data("input", [4, 32, 32])),
    "layers.has_nan-0": lambda: L.has_nan(L.data("input", [4, 32, 32])),
    "layers.isfinite-0": lambda: L.isfinite(L.data("data", [4, 6])),
    "layers.l2_normalize-0": lambda: L.l2_normalize(x(2, 3, name="input"), axis=0),
    "layers.leaky_relu-0": lambda: L.leaky_relu(free(-1, 2), alpha=0.1),
    "layers.less_than-0": lambda: L.less_than(
        free(-1, 2, dtype="float64"), free(-1, 2, name="y", dtype="float64")
    ),
    **{
        f"layers.logical_{kind}-0": lambda kind=kind: getattr(L, f"logical_{kind}")(
            free(-1, 2, dtype="bool"), free(-1, 2, name="y", dtype="bool")
        )
        for kind in ("and", "or", "xor")
    },
    "layers.margin_rank_loss-0": lambda: L.margin_rank_loss(*sides()),
    "layers.mean-0": lambda: L.mean(L.data("data", [2, 3])),
    "layers.not_equal-0": lambda: L.not_equal(
        L.data("label", [1], dtype="int64"), L.fill_constant([1], "int64", 1)
    ),
    "layers.pow-0": _pow,
    "layers.rank_loss-0": lambda: L.rank_loss(*sides()),
    "layers.reduce_all-0": _reduce_all,
    **{
        f"layers.reduce_{kind}-0": lambda kind=kind: _reduction(getattr(L, f"reduce_{kind}"))
        for kind in ("mean", "min", "prod", "sum")
    },
    "layers.scale-0": lambda: L.scale(free(-1, 2, 3), scale=2.0, bias=1.0),
    "layers.scale-1": _scale_by_variable,
    "layers.selu-0": lambda: L.selu(free(-1, 2, 2)),
    "layers.sign-0": lambda: L.sign(L.assign(np.array([3.0, 0.0, -2.0], dtype="float32"))),
    "layers.soft_relu-0": lambda: L.soft_relu(free(-1, 2, 2), threshold=20.0),
    "layers.square_error_cost-0": lambda: L.square_error_cost(
        x(1, name="input"), x(1, name="label")
    ),
    "layers.stanh-0": lambda: L.stanh(x(-1, 3, name="input"), scale_a=0.67, scale_b=1.72),
    "layers.sums-0": _sums,
    "layers.thresholded_relu-0": lambda: L.thresholded_relu(x(-1, 3), threshold=0.1),
    "layers.round-1": lambda: L.round(x(-1, 4)),
    **{f"layers.{name}-0": lambda name=name: getattr(L, name)(x(-1, 4)) for name in PLAIN.split()},
}
