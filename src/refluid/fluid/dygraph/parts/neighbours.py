"""Convolutions over the rows of sequences and the nodes of trees."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.fluid.dygraph.parts.activated import Activated
from refluid.fluid.dygraph.parts.former import scoped
from refluid.ir.variable import Variable


@scoped(
    "output_size num_filters max_depth act param_attr bias_attr name",
    feature_size=lambda inputs, _: int(inputs[0].shape[2]),
)
class TreeConv(Activated):
    """Tree-based convolution, as `fluid.contrib.layers.tree_conv`."""

    def __init__(
        self,
        feature_size: int,
        output_size: int,
        num_filters: int = 1,
        max_depth: int = 2,
        act: str | None = "tanh",
        param_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype, act)
        self._name, self._max_depth = name, max_depth
        shape = [feature_size, 3, output_size, num_filters]
        self.weight = self.create_parameter(shape, param_attr, dtype)
        self.bias = None
        if bias_attr:
            self.bias = self.create_parameter([num_filters], bias_attr, dtype, is_bias=True)

    def forward(self, nodes_vector: Variable, edge_set: Variable) -> Any:
        """(B, nodes, feature_size) and (B, edges, 2) give (B, nodes, output_size, num_filters)."""
        slots = {"NodesVector": nodes_vector, "EdgeSet": edge_set, "Filter": self.weight}
        out = op("tree_conv", slots, {"max_depth": self._max_depth})
        return self._finished(out, self.bias, 1)


class RowConv(Activated):
    """Look-ahead convolution, as `fluid.layers.row_conv`; its width follows from the input."""

    def __init__(
        self,
        name_scope: str,
        future_context_size: int,
        param_attr: Any = None,
        act: str | None = None,
    ) -> None:
        super().__init__("float32", act, name_scope)
        self._future, self._param_attr = future_context_size, param_attr

    def _build_once(self, input: Any) -> None:
        shape = [self._future + 1, input.shape[1]]
        self.weight = self.create_parameter(shape, self._param_attr, input.dtype)

    def forward(self, input: Variable) -> Any:
        """The convolved rows."""
        return self._activated(op("row_conv", {"X": input, "Filter": self.weight}))


class SequenceConv(Activated):
    """Convolution over rows of sequences, as `fluid.layers.sequence_conv`."""

    def __init__(
        self,
        name_scope: str,
        num_filters: int,
        filter_size: int = 3,
        filter_stride: int = 1,
        padding: Any = None,
        bias_attr: Any = None,
        param_attr: Any = None,
        act: str | None = None,
    ) -> None:
        super().__init__("float32", act, name_scope)
        self._filters, self._size, self._stride = num_filters, filter_size, filter_stride
        self._padding = padding
        self._attrs = (param_attr, bias_attr)

    def _build_once(self, input: Any) -> None:
        shape = [self._size * input.shape[1], self._filters]
        param, bias = self._attrs
        self.weight = self.create_parameter(shape, param, input.dtype)
        self.bias = self.create_parameter([self._filters], bias, input.dtype, is_bias=True)

    def forward(self, input: Variable) -> Any:
        """The convolved rows."""
        attrs = {
            "contextStride": self._stride,
            "contextStart": -(self._size // 2),
            "contextLength": self._size,
        }
        out = op("sequence_conv", {"X": input, "Filter": self.weight}, attrs)
        return self._finished(out, self.bias, 1)
