"""Kronecker products, triangles and traces of matrices."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

__all__ = ["kron", "trace", "tril", "triu"]


def named_result(op_type: str, name: str | None, inputs: dict[str, Any]) -> Variable:
    """A result that is called `name` where one is given."""
    helper = LayerHelper(op_type, name=name)
    dtype = inputs["X"].dtype
    out = None if name is None else helper.create_variable(name=name, dtype=dtype)
    return op(op_type, inputs, out=out, layer=helper)


def kron(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """The Kronecker product: every element of `x` times all of `y`."""
    inputs = {"X": x, "Y": y}
    if out is not None:
        return op("kron", inputs, out=out, name=name)
    return named_result("kron", name, inputs)


def trace(
    input: Variable,
    offset: int = 0,
    dim1: int = 0,
    dim2: int = 1,
    out: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Sums of the diagonals, `offset` above the main one, of the matrices in `dim1` and `dim2`."""
    attrs = {"offset": offset, "dim1": dim1, "dim2": dim2}
    return op("trace", {"Input": [input]}, attrs, out=out, name=name)


def _triangle(kind: str, input: Variable, diagonal: int, name: str | None) -> Variable:
    if not isinstance(diagonal, int):
        raise TypeError(f"{kind}: diagonal must be an int, not {diagonal!r}")
    if len(input.shape) < 2:
        raise ValueError(f"{kind} takes matrices; {input.name} has shape {list(input.shape)}")
    helper = LayerHelper(kind, name=name)
    out = helper.create_variable(name=helper.name, dtype=input.dtype, persistable=False)
    attrs = {"diagonal": diagonal, "lower": kind == "tril"}
    return op("tril_triu", {"X": input}, attrs, out=out, layer=helper)


def tril(input: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """Matrices with zeros above the diagonal that is `diagonal` above the main one."""
    return _triangle("tril", input, diagonal, name)


def triu(input: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """Matrices with zeros below the diagonal that is `diagonal` above the main one."""
    return _triangle("triu", input, diagonal, name)


def fsp_matrix(x: Variable, y: Variable) -> Variable:
    """Products of each channel of `x` with each of `y`, averaged over pixels: (N, Cx, Cy)."""
    return op("fsp", {"X": x, "Y": y}, layer="fsp_matrix")
