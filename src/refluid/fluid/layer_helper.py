"""LayerHelper: what layers share: inputs, bias, activation, operators."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from refluid.build import apply, at_once, check_variables, op
from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper_base import LayerHelperBase
from refluid.fluid.param_attr import ParamAttr, to_attr
from refluid.ir.operator import Operator
from refluid.ir.variable import Parameter, Variable

_CARRIED = ("use_cudnn", "use_mkldnn")


class LayerHelper(LayerHelperBase):
    """Helper of one layer call; `kwargs` are the layer's own arguments, usually `**locals()`."""

    def __init__(self, layer_type: str, **kwargs: Any) -> None:
        self.kwargs = kwargs
        name = kwargs.get("name")
        super().__init__(names.generate(layer_type) if name is None else name, layer_type)

    def append_op(
        self,
        type: str,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
        stop_gradient: bool = False,
    ) -> Operator | None:
        """Appends an operator to the current block (see `Block.append_op`), or runs it at once."""
        if not at_once():
            block = self.main_program.current_block()
            return block.append_op(type, inputs, outputs, attrs, stop_gradient)
        apply(type, inputs, outputs, attrs)
        if stop_gradient:
            for made in (outputs or {}).values():
                for one in made if isinstance(made, list | tuple) else (made,):
                    one.stop_gradient = True
        return None

    # -- the layer's arguments -------------------------------------------------

    def multiple_input(self, input_param_name: str = "input") -> list[Variable]:
        """The layer's inputs as a list."""
        given = self.kwargs.get(input_param_name, [])
        inputs = list(given) if isinstance(given, list | tuple) else [given]
        check_variables(self.layer_type, {input_param_name: inputs})
        return inputs

    def input(self, input_param_name: str = "input") -> Variable:
        """The layer's only input; ValueError where there are several."""
        inputs = self.multiple_input(input_param_name)
        if len(inputs) != 1:
            raise ValueError(f"{self.layer_type} layer only takes one input")
        return inputs[0]

    @property
    def param_attr(self) -> Any:
        """The layer's `param_attr` (or a list of them)."""
        return to_attr(self.kwargs.get("param_attr"))

    @property
    def bias_attr(self) -> Any:
        """The layer's `bias_attr`; False for no bias."""
        return to_attr(self.kwargs.get("bias_attr"))

    def multiple_param_attr(self, length: int) -> list[Any]:
        """`param_attr` for each of `length` inputs; ValueError where their numbers differ."""
        attr = self.param_attr
        attrs = attr if isinstance(attr, list) else [attr]
        if len(attrs) == 1:
            return [copy.copy(attrs[0]) for _ in range(length)]
        if len(attrs) != length:
            raise ValueError(f"{self.layer_type}: {length} inputs but {len(attrs)} param_attr")
        return attrs

    def iter_inputs_and_params(
        self, input_param_name: str = "input"
    ) -> Iterator[tuple[Variable, ParamAttr]]:
        """Each input with the attributes of its parameter."""
        inputs = self.multiple_input(input_param_name)
        return zip(inputs, self.multiple_param_attr(len(inputs)), strict=True)

    def input_dtype(self, input_param_name: str = "input") -> VarType | None:
        """Element type of the inputs; ValueError where they differ."""
        found = {var.dtype for var in self.multiple_input(input_param_name)}
        if len(found) > 1:
            raise ValueError(f"{self.layer_type}: inputs of different types {sorted(found)}")
        return found.pop() if found else None

    def get_parameter(self, name: str) -> Parameter:
        """The parameter of that name; ValueError where the variable is none."""
        param = self.main_program.global_block().var(name)
        if not isinstance(param, Parameter):
            raise ValueError(f"no Parameter name {name} found")
        return param

    def is_instance(self, param_name: str, cls: type) -> None:
        """TypeError unless that argument is of that class."""
        if not isinstance(self.kwargs.get(param_name), cls):
            raise TypeError(f"The input {param_name} of layer {self.layer_type} must be {cls}")

    # -- what follows the layer's own operator ---------------------------------

    def append_bias_op(
        self, input_var: Variable, dim_start: int = 1, dim_end: int | None = None
    ) -> Variable:
        """Adds a bias of the shape of dimensions `dim_start` to `dim_end`, unless it is False."""
        attr = self.bias_attr
        if not attr:
            return input_var
        size = list(input_var.shape[dim_start:dim_end])
        bias = self.create_parameter(attr, shape=size, dtype=input_var.dtype, is_bias=True)
        inputs = {"X": [input_var], "Y": [bias]}
        return op("elementwise_add", inputs, {"axis": dim_start}, layer=self)

    def append_activation(self, input_var: Variable) -> Variable:
        """Applies the layer's `act`: an operator's name, or a dict of `type` and attributes."""
        act = self.kwargs.get("act")
        if act is None:
            return input_var
        if not isinstance(act, str | dict):
            raise TypeError(f"{act!r} is no activation; give the name of one, such as 'relu'")
        attrs: dict[str, Any] = {"type": act} if isinstance(act, str) else dict(act)
        for name in _CARRIED:
            if self.kwargs.get(name):
                attrs[name] = self.kwargs[name]
        return op(attrs.pop("type"), {"X": [input_var]}, attrs, layer=self)
