"""Products, choices and counts of tensors' elements, and random ones."""

from __future__ import annotations

import numpy as np

from refluid import fluid
from tests.fluid.examples.feeds import Build, free, ints, x

L = fluid.layers


def _addcmul() -> None:
    var, one = x(3, 4, name="input"), x(1, 4, name="tenosr1")
    L.addcmul(var, one, x(3, 4, name="tensor2"))


def _addmm() -> None:
    var, one, other = (x(2, 2, name=name) for name in ("input", "x", "y"))
    L.addmm(input=var, x=one, y=other, alpha=5.0, beta=0.5)


def _allclose() -> None:
    one, other = x(2, name="a"), x(2, name="b")
    L.allclose(one, other, rtol=1e-05, atol=1e-08, equal_nan=False, name="ignore_nan")
    L.allclose(one, other, rtol=1e-05, atol=1e-08, equal_nan=True, name="equal_nan")


def _crop_tensor() -> None:
    var = x(-1, 3, 5)
    L.crop_tensor(var, shape=x(3, name="crop_shape", dtype="int32"))
    L.crop_tensor(var, shape=[-1, -1, 3], offsets=[0, 1, 0])
    own, dim = x(3, 8, 8, name="y"), x(1, name="dim1", dtype="int32")
    L.crop_tensor(own, shape=[3, dim, 4])
    L.crop_tensor(var, shape=[-1, 2, 3], offsets=x(3, name="crop_offsets", dtype="int32"))
    L.crop_tensor(var, shape=[-1, 2, 3], offsets=[0, 1, dim])


def _randint() -> None:
    L.randint(low=-5, high=5, shape=[3, 4], dtype="int64")
    one, other = L.fill_constant([1], "int64", 3), L.fill_constant([1], "int32", 5)
    L.randint(low=-5, high=5, shape=[one, other], dtype="int32")
    L.randint(low=-5, high=5, shape=x(2, name="var_shape", dtype="int64"), dtype="int32")
    L.randint(low=-5, high=5, shape=x(2, name="var_shape_int32", dtype="int32"), dtype="int64")
    L.randint(10)


def _randn() -> None:
    np.random.seed(0)
    L.randn([2, 4])


def _randperm() -> None:
    L.Print(L.randperm(6))
    L.Print(L.randperm(6, dtype="int32", seed=1))
    out = L.randperm(6, device="cpu")
    L.Print(out)
    L.Print(L.randperm(6, out=out))


def _scatter_nd() -> None:
    index, updates = x(3, 2, name="index", dtype="int64"), x(3, 9, 10, name="update")
    L.scatter_nd(index, updates, [3, 5, 9, 10])


def _triangle(lower: bool, diagonal: int) -> None:
    var = free(-1, 4, dtype="int64")
    (L.tril if lower else L.triu)(var, diagonal=diagonal)


EXAMPLES: dict[str, Build] = {
    "layers.addcmul-0": _addcmul,
    "layers.addmm-0": _addmm,
    "layers.allclose-0": _allclose,
    "layers.bilinear_tensor_product-0": lambda: L.bilinear_tensor_product(
        x=x(-1, 5, name="t1"), y=x(-1, 4, name="t2"), size=1000
    ),
    "layers.crop_tensor-0": _crop_tensor,
    "layers.flip-0": lambda: L.flip(x(-1, 2, 2), [0, 1]),
    "layers.log1p-0": lambda: L.log1p(x(2, 1)),
    "layers.meshgrid-0": lambda: L.meshgrid(
        [x(100, dtype="int32"), x(200, name="y", dtype="int32")]
    ),
    "layers.mish-0": lambda: L.mish(x(-1, 1, 4)),
    "layers.randint-0": _randint,
    "layers.randn-0": _randn,
    "layers.randperm-0": _randperm,
    "layers.scatter_nd-0": _scatter_nd,
    "layers.tril-0": lambda: _triangle(True, 0),
    "layers.tril-1": lambda: _triangle(True, 2),
    "layers.tril-2": lambda: _triangle(True, -1),
    "layers.triu-0": lambda: _triangle(False, 0),
    "layers.triu-1": lambda: _triangle(False, 2),
    "layers.triu-2": lambda: _triangle(False, -1),
    "layers.unique_with_counts-0+indent": lambda: L.unique_with_counts(ints(2, 3, 3, 1, 5, 3)),
}
