"""Matrix products: fc, mul, matmul."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.core.former import formerly
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


@formerly("is_test")
def fc(
    input: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """A fully connected layer: `act(sum of input x weight + bias)`.

    The first `num_flatten_dims` dimensions (-1: all but the last) are kept, the others are one
    row of a matrix; each input has its own weight of shape (row, size). Result: kept dimensions
    and `size`. Raises ValueError for a row of unknown size.
    """
    helper = LayerHelper(
        "fc", input=input, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name
    )
    dtype = helper.input_dtype()
    products = []
    kept = num_flatten_dims
    for var, attr in helper.iter_inputs_and_params():
        kept = len(var.shape) - 1 if num_flatten_dims == -1 else num_flatten_dims
        row = math.prod(var.shape[kept:])
        if row < 1:
            raise ValueError(
                f"fc: dimensions {kept} and on of {var.name}, shape {list(var.shape)}, must be "
                "known; reshape it, or change num_flatten_dims"
            )
        weight = helper.create_parameter(attr, [row, size], dtype)
        columns = {"x_num_col_dims": kept, "y_num_col_dims": 1}
        products.append(op("mul", {"X": var, "Y": weight}, columns, layer=helper))
    total = products[0]
    if len(products) > 1:
        total = op("sum", {"X": products}, {"use_mkldnn": False}, layer=helper)
    return helper.append_activation(helper.append_bias_op(total, dim_start=kept))


def mul(
    x: Variable,
    y: Variable,
    x_num_col_dims: int = 1,
    y_num_col_dims: int = 1,
    name: str | None = None,
) -> Variable:
    """The matrix product of `x` and `y`, each flattened to a matrix after so many dimensions."""
    attrs = {"x_num_col_dims": x_num_col_dims, "y_num_col_dims": y_num_col_dims}
    return op("mul", {"X": x, "Y": y}, attrs, name=name)


def matmul(
    x: Variable,
    y: Variable,
    transpose_x: bool = False,
    transpose_y: bool = False,
    alpha: float = 1.0,
    name: str | None = None,
) -> Variable:
    """`alpha * x y`, over the last two dimensions; the dimensions before are a batch.

    A one-dimensional operand is a row (x) or a column (y). ValueError where both have batches of
    other sizes.
    """
    if len(x.shape) > 2 and len(y.shape) > 2:
        batches = zip(x.shape[:-2], y.shape, strict=False)
        if any(one != other for one, other in batches if min(one, other) >= 0):
            raise ValueError(
                "matmul: the dimensions before the last two must be equal, but the shapes are "
                f"{list(x.shape)} ({x.name}) and {list(y.shape)} ({y.name})"
            )
    attrs = {"transpose_X": transpose_x, "transpose_Y": transpose_y, "alpha": float(alpha)}
    return op("matmul", {"X": x, "Y": y}, attrs, name=name)
