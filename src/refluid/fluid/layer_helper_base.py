"""LayerHelperBase: names, variables and parameters for one layer call."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.build.accepted_types import check_parameter
from refluid.build.backend import backend
from refluid.build.constants import assign_value
from refluid.build.weight_norm import append_length, append_weight, kept_shape
from refluid.core import names
from refluid.core.dtypes import FLOATING, VarType, as_dtype, dtype_name
from refluid.fluid.initializer import Constant, Initializer, Xavier
from refluid.fluid.param_attr import ParamAttr, WeightNormParamAttr, to_attr
from refluid.ir.defaults import default_main_program, default_startup_program
from refluid.ir.program import Program
from refluid.ir.variable import Variable

# How weights (False) and biases (True) start whose attributes don't say; before layers' own ways.
default_initializers: dict[bool, Initializer | None] = {}


class LayerHelperBase:
    """What a layer needs to write itself into the default programs.

    `name` is the prefix of all it creates: `fc_0.w_0`, `fc_0.b_0`, `fc_0.tmp_0`.
    """

    def __init__(self, name: str, layer_type: str) -> None:
        self._name = name
        self._layer_type = layer_type

    @property
    def name(self) -> str:
        """Prefix of the names of this layer's variables."""
        return self._name

    @property
    def layer_type(self) -> str:
        """The layer's kind, such as `fc`."""
        return self._layer_type

    @property
    def main_program(self) -> Program:
        """The program that the layer is part of."""
        return default_main_program()

    @property
    def startup_program(self) -> Program:
        """The program that initialises the layer's parameters."""
        return default_startup_program()

    def to_variable(self, value: Any, name: str | None = None) -> Variable:
        """A variable as it is, an array as a constant of the program."""
        if isinstance(value, Variable):
            return value
        return assign_value(np.asarray(value))

    def create_parameter(
        self,
        attr: Any,
        shape: Sequence[int],
        dtype: Any,
        is_bias: bool = False,
        default_initializer: Initializer | None = None,
        stop_gradient: bool = False,
        type: VarType = VarType.LOD_TENSOR,
    ) -> Any:
        """A parameter of the main program, initialised by the startup program.

        Its initializer is that of `attr`, else that of `default_initializers`, else
        `default_initializer`, else zeros for a bias and
        `Xavier` for a weight. A name that exists already means that parameter again. None where
        `attr` is False; `to_attr` says what else it may be. Raises TypeError for a whole-number
        weight without initializer.
        """
        if attr is False:
            return None
        attr = self._named(to_attr(attr), is_bias)
        if isinstance(attr, WeightNormParamAttr):
            return self._normalised(attr, shape, dtype, default_initializer)
        kind = as_dtype(dtype)
        check_parameter(self.layer_type, kind)
        initializer = attr.initializer or default_initializers.get(is_bias) or default_initializer
        if initializer is None and kind not in FLOATING:
            raise TypeError(
                f"parameter {attr.name!r} is {dtype_name(kind)} and can't be initialised by "
                "default; give its ParamAttr an initializer"
            )
        initializer = initializer or (Constant(0.0) if is_bias else Xavier())
        options = attr.parameter_options() | {"shape": list(shape), "dtype": kind, "type": type}
        parameter = backend().parameter(initializer, options)
        if stop_gradient:
            parameter.stop_gradient = True
        return parameter

    def _normalised(
        self,
        attr: WeightNormParamAttr,
        shape: Sequence[int],
        dtype: Any,
        initializer: Initializer | None,
    ) -> Variable:
        """The variable that two parameters make: `NAME_v`, its direction, and `NAME_g`, its length.

        The length starts as that of the direction, so that the weight starts as the direction.
        """
        plain, lengths = attr.part("v"), attr.part("g")
        direction = self.create_parameter(plain, shape, dtype, default_initializer=initializer)
        size = kept_shape(shape, attr.dim)
        length = self.create_parameter(lengths, size, dtype, default_initializer=Constant(1.0))
        startup = self.startup_program.global_block()
        twins = startup.var(direction.name), startup.var(length.name)
        append_length(startup, twins[0], attr.dim, twins[1])
        block = self.main_program.current_block()
        return append_weight(block, direction, length, attr.dim)

    def _named(self, attr: ParamAttr, is_bias: bool) -> ParamAttr:
        if not isinstance(attr, ParamAttr):
            raise TypeError(f"{self.layer_type}: expected a ParamAttr, not {attr!r}")
        attr = copy.copy(attr)
        if attr.name is None:
            attr.name = names.generate(f"{self.name}.{'b' if is_bias else 'w'}")
        return attr

    def create_variable_for_type_inference(
        self, dtype: Any, stop_gradient: bool = False
    ) -> Variable:
        """A variable for an operator's output; the operator gives it its shape."""
        return self.create_variable(
            name=names.generate(f"{self.name}.tmp"),
            dtype=dtype,
            persistable=False,
            stop_gradient=stop_gradient,
        )

    create_tmp_variable = create_variable_for_type_inference

    def create_variable(self, *args: Any, **kwargs: Any) -> Variable:
        """A variable of the current block."""
        return backend().variable(*args, **kwargs)

    def create_global_variable(
        self, persistable: bool = False, *args: Any, **kwargs: Any
    ) -> Variable:
        """A variable of the global block; it keeps its value between runs if `persistable`."""
        return backend().state(*args, persistable=persistable, **kwargs)

    def create_or_get_global_variable(
        self, name: str, *args: Any, **kwargs: Any
    ) -> tuple[Variable, bool]:
        """The global variable of that name, and whether it had to be made."""
        block = self.main_program.global_block()
        if block.has_var(name):
            return block.var(name), False
        return self.create_global_variable(*args, name=name, **kwargs), True

    def set_variable_initializer(self, var: Variable, initializer: Initializer) -> None:
        """Has the startup program give `var` its first value."""
        backend().initialise(var, initializer)
