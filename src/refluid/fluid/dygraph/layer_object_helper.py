"""`LayerObjectHelper`: what a `Layer` writes itself with."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from refluid.build import apply, op
from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper_base import LayerHelperBase
from refluid.fluid.param_attr import ParamAttr, to_attr


class LayerObjectHelper(LayerHelperBase):
    """The helper of a layer of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(name, name)

    def append_op(
        self,
        type: str | None = None,
        inputs: Any = None,
        outputs: Any = None,
        attrs: Any = None,
        stop_gradient: bool | None = None,
    ) -> Any:
        """Runs an operator, or appends it to the current block."""
        assert type is not None, "append_op needs the operator's type"
        return apply(type, inputs, outputs, attrs)

    def multiple_input(self, inputs_in: Any) -> list[Any]:
        """The inputs as a list."""
        return list(inputs_in) if isinstance(inputs_in, list | tuple) else [inputs_in]

    def input(self, inputs_in: Any) -> Any:
        """The only input; ValueError where there are several."""
        inputs = self.multiple_input(inputs_in)
        if len(inputs) != 1:
            raise ValueError(f"{self.layer_type} layer only takes one input")
        return inputs[0]

    def input_dtype(self, inputs_in: Any) -> VarType | None:
        """Element type of the inputs; ValueError where they differ."""
        found = {var.dtype for var in self.multiple_input(inputs_in)}
        if len(found) > 1:
            raise ValueError(f"{self.layer_type}: inputs of different types {sorted(found)}")
        return found.pop() if found else None

    def multiple_param_attr(self, length: int, param_attr_in: Any = None) -> list[Any]:
        """The attribute for each of `length` inputs; ValueError where their numbers differ."""
        given = to_attr(param_attr_in)
        attrs = given if isinstance(given, list) else [given]
        if len(attrs) == 1:
            return [copy.copy(attrs[0]) for _ in range(length)]
        if len(attrs) != length:
            raise ValueError(f"{self.layer_type}: {length} inputs but {len(attrs)} param_attr")
        return attrs

    def iter_inputs_and_params(
        self, inputs_in: Any, param_attr_in: Any = None
    ) -> Iterator[tuple[Any, ParamAttr]]:
        """Each input with the attributes of its parameter."""
        inputs = self.multiple_input(inputs_in)
        return zip(inputs, self.multiple_param_attr(len(inputs), param_attr_in), strict=True)

    def append_activation(
        self,
        input_var: Any,
        act: str | None = None,
        use_cudnn: bool | None = None,
        use_mkl_dnn: bool | None = None,
    ) -> Any:
        """The activation of that name; the variable itself without one."""
        if act is None:
            return input_var
        attrs = {"use_cudnn": use_cudnn, "use_mkldnn": use_mkl_dnn}
        return op(act, {"X": input_var}, {name: one for name, one in attrs.items() if one})
