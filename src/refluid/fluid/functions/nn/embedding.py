"""Tables looked up by number: embedding, and its counterpart one_hot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

# What a table of servers that grows is declared with: nobody makes it whole.
_UNKNOWN_HEIGHT = 2**40
_grows: list[bool] = []


@contextmanager
def growing_tables() -> Iterator[None]:
    """Within the block a table may have -1 rows: as many as come, where servers hold it."""
    _grows.append(True)
    try:
        yield
    finally:
        _grows.pop()


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """Rows of a table (rows, width) by number: ids (..., 1) give (..., width).

    is_sparse: the gradient holds only rows that were read. padding_idx: ids that give zeros
    and train nothing; negative ones count from the end. `fluid.embedding` takes ids without the
    last dimension of 1.
    """
    return look_up("lookup_table", locals())


def look_up(
    op_type: str, given: dict[str, Any], others: Mapping[str, Any] | None = None
) -> Variable:
    """The layer with operator `op_type`, `given` being the layer's arguments.

    others: attributes besides.
    """
    helper = LayerHelper("embedding", param_attr=given["param_attr"])
    kind = as_dtype(given["dtype"])
    padding: int | None = given["padding_idx"]
    size = given["size"]
    if _grows and size[0] == -1:
        size = [_UNKNOWN_HEIGHT, *size[1:]]
    rows = size[0]
    if padding is None:
        padding = -1
    elif not -rows <= padding < rows:
        raise ValueError(f"embedding: padding_idx {padding} is outside a table of {rows} rows")
    elif padding < 0:
        padding += rows
    table = helper.create_parameter(helper.param_attr, size, kind)
    sparse, distributed = given["is_sparse"], given["is_distributed"]
    attrs = {
        "is_sparse": sparse,
        "is_distributed": distributed,
        "remote_prefetch": sparse and not distributed,
        "padding_idx": padding,
        **(others or {}),
    }
    return op(op_type, {"Ids": given["input"], "W": table}, attrs, dtype=kind, layer=helper)


def one_hot(input: Variable, depth: int | Variable, allow_out_of_range: bool = False) -> Variable:
    """Vectors (..., depth) with a one at the place that ids (..., 1) say, float32."""
    return encode("one_hot", input, depth, allow_out_of_range)


def encode(op_type: str, ids: Variable, depth: int | Variable, out_of_range: bool) -> Variable:
    """The layer with operator `op_type`; depth is a number or a variable of shape (1,)."""
    inputs = {"X": ids}
    attrs: dict[str, Any] = {"allow_out_of_range": out_of_range}
    if isinstance(depth, Variable):
        depth.stop_gradient = True
        inputs["depth_tensor"] = depth
    else:
        attrs["depth"] = depth
    return op(op_type, inputs, attrs, dtype=VarType.FP32, stop_gradient=True)
