"""`fluid.embedding` and `fluid.one_hot`: ids need no last dimension of 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.core.causes import guard
from refluid.fluid.functions.nn.embedding import encode, look_up
from refluid.ir.variable import Variable

__all__ = ["embedding", "one_hot"]


def one_hot(input: Variable, depth: int | Variable, allow_out_of_range: bool = False) -> Variable:
    """Vectors with a one at the place that the ids say: ids (...) give (..., depth), float32."""
    return encode("one_hot_v2", input, depth, allow_out_of_range)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """Rows of a table (rows, width) by number: ids (...) give (..., width).

    is_sparse: the gradient holds only rows that were read. padding_idx: ids that give zeros and
    train nothing; negative ones count from the end. ValueError for one outside the table.
    """
    return look_up("lookup_table_v2", locals())


guard(__all__, globals())
