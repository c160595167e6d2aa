"""`FC`: what `Linear` was in Fluid 1.5 and 1.6; its weight is made by its first input."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from refluid.build import op
from refluid.core.all_parameters import note_former_layer
from refluid.fluid.dygraph.parts.activated import Activated, FormerNames
from refluid.ir.variable import Variable


class FC(FormerNames, Activated):
    """act(sum of input x weight + bias), as `fluid.layers.fc`, with a weight for each input.

    num_flatten_dims: how many dimensions of an input are kept; the others are a row of a matrix.
    """

    _former: ClassVar[dict[str, str]] = {"_w": "weight", "_b": "bias"}

    def __init__(
        self,
        name_scope: str,
        size: int,
        num_flatten_dims: int = 1,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        is_test: bool = False,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype, act, name_scope)
        note_former_layer()
        self._size, self._kept = size, num_flatten_dims
        self._param_attr, self._bias_attr = param_attr, bias_attr
        self._weights: list[str] = []

    def _build_once(self, input: Any) -> None:
        pairs = self._helper.iter_inputs_and_params(input, self._param_attr)
        for number, (one, attr) in enumerate(pairs):
            name = f"weight_{number}" if number else "weight"
            row = math.prod(one.shape[self._kept :])
            made = self.create_parameter([row, self._size], attr, self._dtype)
            setattr(self, name, self.add_parameter(name, made))
            self._weights.append(name)
        self.bias = self.create_parameter([self._size], self._bias_attr, self._dtype, is_bias=True)

    def forward(self, input: Variable) -> Any:
        """The kept dimensions of the input, or of each of a list, and (size)."""
        inputs = self._helper.multiple_input(input)
        columns = {"x_num_col_dims": self._kept, "y_num_col_dims": 1}
        products = [
            op("mul", {"X": one, "Y": getattr(self, name)}, columns)
            for one, name in zip(inputs, self._weights, strict=True)
        ]
        out = op("sum", {"X": products}) if len(products) > 1 else products[0]
        return self._finished(out, self.bias, self._kept)
