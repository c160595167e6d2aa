"""`paddle.distributed.split`: layers of programs whose weights are split among workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import at_once
from refluid.core.errors import EnforceNotMet
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable
from refluid.paddle.distributed import parts
from refluid.paddle.distributed.groups import Group
from refluid.paddle.distributed.topology import members_of_layers

__all__ = ["split"]

_OPERATIONS = ("linear", "embedding")


def split(
    x: Variable,
    size: Sequence[int],
    operation: str,
    axis: int = 0,
    num_partitions: int = 1,
    gather_out: bool = True,
    weight_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """A layer of which `num_partitions` neighbouring workers have a part of the weight each.

    x: the input, the same for all of them. size: of the whole weight, rows and columns. operation:
    "linear", split along `axis` 0 (rows) or 1 (columns), or "embedding", split by rows. gather_out:
    give the layer's result; else of columns this worker's part of it, of rows what must be summed.
    weight_attr, bias_attr: of this worker's part. ValueError or TypeError for what is none of
    these, EnforceNotMet for sizes that aren't multiples of `num_partitions`.

        y = paddle.distributed.split(x, (8, 6), "linear", axis=1, num_partitions=2)
    """
    if at_once():
        raise EnforceNotMet(
            "paddle.distributed.split is for programs; at once fleet.meta_parallel has "
            "ColumnParallelLinear, RowParallelLinear and VocabParallelEmbedding"
        )
    if not isinstance(size, list | tuple) or len(size) != 2:
        raise TypeError(f"size is a list of two numbers, rows and columns of the weight: {size!r}")
    if operation not in _OPERATIONS:
        raise ValueError(f"operation is one of {', '.join(_OPERATIONS)}, not {operation!r}")
    if axis not in ((0,) if operation == "embedding" else (0, 1)):
        raise ValueError(f"{operation} can't be split along axis {axis!r}")
    group = members_of_layers(num_partitions)
    made = _Split(x, [int(one) for one in size], group, weight_attr, bias_attr, name)
    if operation == "embedding":
        return made.embedding()
    return made.columns(gather_out) if axis else made.rows(gather_out)


class _Split:
    """A layer whose weight is split in a group."""

    def __init__(
        self,
        x: Variable,
        size: list[int],
        group: Group,
        weight_attr: Any,
        bias_attr: Any,
        name: str | None,
    ) -> None:
        self.x, self.group, (self.height, self.width) = x, group, size
        self.helper = LayerHelper("split", param_attr=weight_attr, bias_attr=bias_attr, name=name)

    def embedding(self) -> Variable:
        rows = self._share("the number of rows of an embedding", self.height)
        weight = self._parameter([rows, self.width], "float32")
        return parts.embedding(self.x, weight, self.group, self.height)

    def columns(self, gather: bool) -> Variable:
        columns = self._share("the number of columns of a linear layer's weight", self.width)
        weight = self._parameter([self.height, columns], self.x.dtype)
        bias = self._parameter([columns], self.x.dtype, is_bias=True)
        return parts.linear_of_columns(self.x, weight, bias, self.group, gather)

    def rows(self, gather: bool) -> Variable:
        rows = self._share("the number of rows of a linear layer's weight", self.height)
        given = self.x.shape[-1]
        if given not in (rows, self.height):
            raise EnforceNotMet(
                f"a linear layer split by rows takes a last dimension of {self.height}, "
                f"or a part of it, {rows}; it is {given}"
            )
        if not gather and self.helper.kwargs["bias_attr"]:
            raise ValueError("parts of a sum have no bias: gather_out=True, or bias_attr=False")
        weight = self._parameter([rows, self.width], self.x.dtype)
        attr = self.helper.bias_attr if gather else False
        bias = self.helper.create_parameter(attr, [self.width], self.x.dtype, is_bias=True)
        return parts.linear_of_rows(
            self.x, weight, bias, self.group, is_part=given == rows, total=gather
        )

    def _share(self, what: str, size: int) -> int:
        return parts.share(what, size, self.group.nranks)

    def _parameter(self, shape: list[int], dtype: Any, *, is_bias: bool = False) -> Any:
        """This worker's part."""
        attr = self.helper.bias_attr if is_bias else self.helper.param_attr
        made = self.helper.create_parameter(attr, shape, dtype, is_bias=is_bias)
        if made is not None and self.group.nranks > 1:
            made.is_distributed, made.split_in = True, self.group.id
        return made
