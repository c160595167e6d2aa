"""Products of matrices and vectors, norms, and decompositions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.fluid.functions.math.reduction import reduction_attributes
from refluid.ir.variable import Variable
from refluid.paddle.tensor.making import cast_to, dimension, rank_of


def matmul(
    x: Variable,
    y: Variable,
    transpose_x: bool = False,
    transpose_y: bool = False,
    name: str | None = None,
) -> Variable:
    """x · y of matrices, batches of them, or vectors; dimensions before the last two broadcast."""
    if rank_of(x) == rank_of(y) == 1:
        return _summed(op("elementwise_mul", {"X": x, "Y": y}), name)
    flipped_x = transpose_x and rank_of(x) > 1
    flipped_y = transpose_y and rank_of(y) > 1
    attrs = {"transpose_X": flipped_x, "transpose_Y": flipped_y, "alpha": 1.0}
    return op("matmul", {"X": x, "Y": y}, attrs, name=name)


def _summed(x: Variable, name: str | None = None) -> Variable:
    return op("reduce_sum", {"X": x}, {"dim": [-1], "keep_dim": False}, name=name)


def mm(input: Variable, mat2: Variable, name: str | None = None) -> Variable:
    """The product of matrices, as `matmul`."""
    return matmul(input, mat2, name=name)


def bmm(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The product of each matrix of x (B, N, K) with that of y (B, K, M)."""
    return op("bmm", {"X": x, "Y": y}, name=name)


def mv(x: Variable, vec: Variable, name: str | None = None) -> Variable:
    """The product of a matrix and a vector."""
    return matmul(x, vec, name=name)


def dot(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Sums of x * y along the last dimension: of vectors (1,), of matrices one for each row."""
    return _summed(op("elementwise_mul", {"X": x, "Y": y}), name)


def inner(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Sums of products along the last dimensions of both."""
    return matmul(x, y, transpose_y=True, name=name) if rank_of(y) > 1 else matmul(x, y, name=name)


def outer(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The product of each element of x with each of y."""
    column = op("reshape2", {"X": x}, {"shape": [-1, 1]})
    row = op("reshape2", {"X": y}, {"shape": [1, -1]})
    return op("elementwise_mul", {"X": column, "Y": row}, name=name)


def addmm(
    input: Variable,
    x: Variable,
    y: Variable,
    beta: float = 1.0,
    alpha: float = 1.0,
    name: str | None = None,
) -> Variable:
    """beta * input + alpha * x · y."""
    inputs, attrs = {"Input": input, "X": x, "Y": y}, {"Alpha": alpha, "Beta": beta}
    return op("addmm", inputs, attrs, name=name)


def cross(x: Variable, y: Variable, axis: int = 9, name: str | None = None) -> Variable:
    """The vector product along `axis`; 9 stands for the first dimension of size 3."""
    return op("cross", {"X": x, "Y": y}, {"dim": axis}, name=name)


def kron(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The Kronecker product."""
    return op("kron", {"X": x, "Y": y}, name=name)


def trace(
    x: Variable, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None
) -> Variable:
    """The sum of the diagonal of the planes of two axes."""
    attrs = {"offset": offset, "dim1": axis1, "dim2": axis2}
    return op("trace", {"Input": x}, attrs, name=name)


def dist(x: Variable, y: Variable, p: float = 2, name: str | None = None) -> Variable:
    """The p-norm of x - y."""
    return op("dist", {"X": x, "Y": y}, {"p": float(p)}, name=name)


def t(input: Variable, name: str | None = None) -> Variable:
    """A matrix turned; a vector as it is."""
    if rank_of(input) > 2:
        raise ValueError(
            "Input(input) only support N-D (N<=2) tensor, but received length of Input(input) is "
            f"{rank_of(input)}. Perhaps you can use paddle.tensor.transpose() instead."
        )
    if rank_of(input) < 2:
        return op("assign", {"X": input}, name=name)
    return op("transpose2", {"X": input}, {"axis": [1, 0]}, name=name)


def norm(
    x: Variable, p: Any = "fro", axis: Any = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """The norm: `fro` for the Euclidean one, or a number, also inf and -inf, along axes."""
    if p == "fro" and not isinstance(axis, int):
        return op("frobenius_norm", {"X": x}, reduction_attributes(x, axis, keepdim), name=name)
    order = 2.0 if p == "fro" else float(p)
    if isinstance(axis, list | tuple) and len(axis) == 2:
        return _matrix_norm(x, order, axis, keepdim, name)
    if isinstance(axis, list | tuple):
        axis = axis[0]
    if axis is None:
        x = op("reshape2", {"X": x}, {"shape": [-1]})
        axis = -1
    attrs = {"porder": order, "axis": axis, "keepdim": keepdim, "epsilon": 1e-12}
    return op("p_norm", {"X": x}, attrs, name=name)


def _matrix_norm(
    x: Variable, order: float, axis: Sequence[int], keepdim: bool, name: str | None
) -> Variable:
    """The p-norm of all elements of a plane, as Paddle 2 has it."""
    size = op("abs", {"X": x})
    settings = reduction_attributes(x, list(axis), keepdim)
    if order in (float("inf"), float("-inf")):
        return op("reduce_max" if order > 0 else "reduce_min", {"X": size}, settings, name=name)
    powers = op("pow", {"X": size}, {"factor": order})
    total = op("reduce_sum", {"X": powers}, settings)
    return op("pow", {"X": total}, {"factor": 1.0 / order}, name=name)


def inverse(x: Variable, name: str | None = None) -> Variable:
    """The inverse of each matrix."""
    return op("inverse", {"Input": x}, name=name)


def cholesky(x: Variable, upper: bool = False, name: str | None = None) -> Variable:
    """The lower (or upper) triangle whose product with its transpose is x."""
    return op("cholesky", {"X": x}, {"upper": upper}, name=name)


def det(x: Variable, name: str | None = None) -> Variable:
    """The determinant of each matrix."""
    return op("determinant", {"Input": x}, name=name)


def solve(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The solution of x · out = y."""
    return op("solve", {"X": x, "Y": y}, name=name)


def matrix_power(x: Variable, n: int, name: str | None = None) -> Variable:
    """Each matrix to the power of a whole number."""
    return op("matrix_power", {"X": x}, {"n": n}, name=name)


def multi_dot(x: Sequence[Variable], name: str | None = None) -> Variable:
    """The product of several matrices; the first and the last may be vectors."""
    found = x[0]
    for one in x[1:]:
        found = matmul(found, one)
    return found


def einsum(equation: str, *operands: Variable) -> Variable:
    """Products summed as Einstein's convention says: `ij,jk->ik`."""
    return op("einsum", {"Operands": list(operands)}, {"equation": equation})


def tensordot(x: Variable, y: Variable, axes: Any = 2, name: str | None = None) -> Variable:
    """Sums of products over pairs of axes: the last and first `axes`, or those listed."""
    if isinstance(axes, int):
        of_x: list[int] = list(range(rank_of(x) - axes, rank_of(x)))
        of_y: list[int] = list(range(axes))
    else:
        axes = axes.tolist() if hasattr(axes, "tolist") else axes
        both = all(isinstance(one, int) for one in axes)  # the same of each
        parts = (
            [list(axes)] if both else [one if isinstance(one, list) else list(one) for one in axes]
        )
        of_x, of_y = parts[0], parts[-1]
        of_x, of_y = of_x + of_y[len(of_x) :], of_y + of_x[len(of_y) :]
    letters = "abcdefghijklmnopqrstuvwxyz"
    first, second = list(letters[: rank_of(x)]), list(letters[-rank_of(y) :] if rank_of(y) else "")
    for one, other in zip(of_x, of_y, strict=True):
        second[dimension(y, other)] = first[dimension(x, one)]
    shared = {first[dimension(x, one)] for one in of_x}
    left = [one for one in first + second if one not in shared]
    return einsum(f"{''.join(first)},{''.join(second)}->{''.join(left)}", x, y)


def histogram(
    input: Variable, bins: int = 100, min: int = 0, max: int = 0, name: str | None = None
) -> Variable:
    """How many elements lie in each of equal parts of [min, max]; of all where both are 0."""
    attrs = {"bins": bins, "min": int(min), "max": int(max)}
    return op("histogram", {"X": input}, attrs, dtype=VarType.INT64, name=name)


def bincount(
    x: Variable, weights: Variable | None = None, minlength: int = 0, name: str | None = None
) -> Variable:
    """How often each number from 0 up occurs in (N,), or the sum of its weights."""
    kind = VarType.INT64 if weights is None else weights.dtype
    inputs = {"X": cast_to(x, VarType.INT64), "Weights": weights}
    return op("bincount", inputs, {"minlength": minlength}, dtype=kind, name=name)
