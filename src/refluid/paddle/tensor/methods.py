"""Functions on variables as their methods: `x.reshape([2, -1])`, `x.mean()`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from refluid.ir import overloads
from refluid.paddle import tensor
from refluid.paddle.naming import Home, homes

# Functions whose first argument is no variable.
_MADE = frozenset(
    [
        "add_n",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "arange",
        "broadcast_shape",
        "broadcast_tensors",
        "concat",
        "einsum",
        "empty",
        "eye",
        "full",
        "linspace",
        "logspace",
        "meshgrid",
        "multi_dot",
        "multiplex",
        "normal",
        "ones",
        "rand",
        "randint",
        "randn",
        "randperm",
        "scatter_nd",
        "stack",
        "standard_normal",
        "to_tensor",
        "tril_indices",
        "triu_indices",
        "uniform",
        "zeros",
    ]
)


# Methods that overwrite what they are called of, and are no functions of `paddle`.
_OVERWRITING = ["exponential_", "fill_", "uniform_", "zero_"]


@cache
def table() -> dict[str, Home]:
    """Functions on variables by name."""
    return homes(tensor.TENSOR)


# Methods that are functions of other modules.
_BESIDE = """
    refluid.paddle.framework.dtypes: is_complex is_floating_point is_integer
    refluid.paddle.tensor.matrices: cholesky_solve cond corrcoef cov eigvalsh
    refluid.paddle.tensor.matrices: householder_product lstsq lu lu_unpack pinv qr
    refluid.paddle.tensor.complexes: eig eigvals
    refluid.paddle.tensor.linalg: matrix_power solve
    refluid.paddle.tensor.math: sigmoid
"""


@cache
def _beside() -> dict[str, Home]:
    return homes(_BESIDE)


def _method(name: str) -> Callable[..., Any] | None:
    found = None if name in _MADE else table().get(name) or _beside().get(name)
    if found is None and (
        name in _OVERWRITING or (name.endswith("_") and name.removesuffix("_") in table())
    ):
        found = Home("refluid.paddle.tensor.in_place", name)
    function: Callable[..., Any] | None = None if found is None else found.load()
    return function


def provide() -> None:
    """Gives variables the methods that Paddle 2's have."""
    overloads.provide_methods(_method)
