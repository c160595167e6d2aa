"""`paddle.complex.tensor`."""

from refluid.paddle.complex.tensor import linalg, manipulation, math
from refluid.paddle.complex.tensor.linalg import matmul
from refluid.paddle.complex.tensor.manipulation import reshape, transpose
from refluid.paddle.complex.tensor.math import (
    elementwise_add,
    elementwise_div,
    elementwise_mul,
    elementwise_sub,
    kron,
    sum,
    trace,
)

_MODULES = linalg, manipulation, math

__all__ = [
    "elementwise_add",
    "elementwise_div",
    "elementwise_mul",
    "elementwise_sub",
    "kron",
    "matmul",
    "reshape",
    "sum",
    "trace",
    "transpose",
]
