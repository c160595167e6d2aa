"""Operators and variables as Fluid's descriptions spell them: by methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from refluid.core.dtypes import VarType as _VarType
from refluid.ir.attributes import AttrType
from refluid.ir.checks import check
from refluid.ir.operator import Operator
from refluid.ir.schema import find
from refluid.ir.variable import Variable


class OpDesc:
    """An operator: `desc.type()`, `desc.input("X")`, `desc.attr("axis")`."""

    def __init__(self, op: Operator) -> None:
        self._operator = op

    def has_attr(self, name: str) -> bool:
        """Whether it has an attribute."""
        return self._operator.has_attr(name)

    def attr(self, name: str) -> Any:
        """The value of an attribute, or None."""
        return self._operator.attr(name)

    def attr_names(self) -> list[str]:
        """Its attributes."""
        return self._operator.attr_names

    def _set_attr(self, name: str, value: Any) -> None:
        self._operator.set_attr(name, value)

    def input(self, name: str) -> list[str]:
        """The variables that it reads in a slot."""
        return self._operator.input(name)

    def output(self, name: str) -> list[str]:
        """The variables that it writes in a slot."""
        return self._operator.output(name)

    def set_input(self, name: str, args: Iterable[str]) -> None:
        """Reads these variables in a slot."""
        self._operator.set_input(name, args)

    def set_output(self, name: str, args: Iterable[str]) -> None:
        """Writes these variables in a slot."""
        self._operator.set_output(name, args)

    def _rename_input(self, old: str, new: str) -> None:
        self._operator.rename_input(old, new)

    def _rename_output(self, old: str, new: str) -> None:
        self._operator.rename_output(old, new)

    def type(self) -> str:
        """What it computes."""
        return self._operator.type

    def set_type(self, type: str) -> None:
        """Becomes an operator of another type."""
        self._operator.set_type(type)

    def input_names(self) -> list[str]:
        """Its input slots."""
        return self._operator.input_names

    def output_names(self) -> list[str]:
        """Its output slots."""
        return self._operator.output_names

    def inputs(self) -> dict[str, list[str]]:
        """Slot -> the variables that it reads there."""
        return {slot: list(names) for slot, names in self._operator.inputs.items()}

    def outputs(self) -> dict[str, list[str]]:
        """Slot -> the variables that it writes there."""
        return {slot: list(names) for slot, names in self._operator.outputs.items()}

    def input_arg_names(self) -> list[str]:
        """The variables that it reads."""
        return self._operator.input_arg_names

    def output_arg_names(self) -> list[str]:
        """The variables that it writes."""
        return self._operator.output_arg_names

    def attr_type(self, name: str) -> AttrType:
        """The type of an attribute."""
        return self._operator.attr_type(name)

    def remove_attr(self, name: str) -> None:
        """Takes an attribute away, where it has it."""
        self._operator.remove_attr(name)

    def set_block_attr(self, name: str, block: Any) -> None:
        """Sets an attribute that is a block of the program: a `BlockDesc`."""
        self._operator.set_attr(name, block._block)

    def _block_attr_id(self, name: str) -> int:
        """The number of the block that an attribute is."""
        return int(self._operator.attr(name).idx)

    def block(self) -> Any:
        """The description of the block that it is in."""
        return self._operator.block.desc

    def copy_from(self, other: OpDesc) -> None:
        """Becomes an operator like another one."""
        own, given = self._operator, other._operator
        own.set_type(given.type)
        own.inputs, own.outputs = other.inputs(), other.outputs()
        for name in own.attr_names:
            own.remove_attr(name)
        for name, value in given.all_attrs().items():
            own.set_attr(name, value)

    def become(
        self,
        type: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Operator:
        """The operator that it describes; without a type yet, it becomes what is given.

        As `append_op` makes it. ValueError where neither says a type.
        """
        own = self._operator
        if own.type:
            return own
        if type is None:
            raise ValueError("`type` of an Operator can not be None: say what it computes")
        made = own.block.make_op(type, inputs, outputs, attrs)
        check(made)
        own.inputs, own.outputs = made.inputs, made.outputs
        own.attrs, own.attr_types = made.attrs, made.attr_types
        own.set_type(type)
        self.infer_shape(own.block.desc)
        return own

    def check_attrs(self) -> None:
        """Gives it the declared attributes that it has not, with their defaults."""
        definition = find(self._operator.type)
        for name, declared in (definition.attributes if definition else {}).items():
            known = declared.required or declared.inner or self._operator.has_attr(name)
            if not known:
                self._operator.set_attr(name, declared.default)

    def infer_shape(self, block: Any) -> None:
        """Infers shapes, element types and LoD levels of what it makes anew.

        block: the description of the block that it is in. Nothing happens for operators that run
        blocks, and for those that refluid lacks. EnforceNotMet where the inputs don't fit.
        """
        definition = find(self._operator.type)
        if definition is not None and not self._operator.has_sub_blocks:
            definition.infer(self._operator)

    infer_var_type = infer_shape

    def set_is_target(self, is_target: bool) -> None:
        """Says whether pruning keeps it."""
        self._operator.is_target = is_target

    def serialize_to_string(self) -> bytes:
        """Its message in Fluid's format."""
        from refluid.ir.desc import operator_bytes

        return operator_bytes(self._operator)


class VarDesc:
    """A variable: `desc.shape()`, `desc.set_shape([2])`."""

    VarType = _VarType

    def __init__(self, var: Variable) -> None:
        self._var = var

    def name(self) -> str:
        """Its name."""
        return self._var.name

    def set_name(self, name: str) -> None:
        """Gives it another name, wherever its block's operators use it."""
        self._var.block.rename_var(self._var.name, name)

    def type(self) -> _VarType:
        """The kind of value."""
        return self._var.type

    def set_type(self, type: _VarType) -> None:
        """Sets the kind of value."""
        self._var.change(type=_VarType(type))

    def dtype(self) -> _VarType:
        """The type of elements."""
        return self._var.dtype

    def set_dtype(self, dtype: Any) -> None:
        """Sets the type of elements."""
        self._var.dtype = dtype

    def shape(self) -> list[int]:
        """Sizes; -1 where unknown."""
        return list(self._var.shape)

    get_shape = shape

    def set_shape(self, shape: Iterable[int]) -> None:
        """Sets the sizes."""
        self._var.shape = tuple(shape)

    def lod_level(self) -> int:
        """Levels of sequences."""
        return self._var.lod_level

    def set_lod_level(self, level: int) -> None:
        """Sets the levels of sequences."""
        self._var.change(lod_level=level)

    def persistable(self) -> bool:
        """Whether the value is kept after a step."""
        return self._var.persistable

    def set_persistable(self, persistable: bool) -> None:
        """Says whether the value is kept after a step."""
        self._var.persistable = persistable

    def need_check_feed(self) -> bool:
        """Whether what is fed must have the declared shape and type."""
        return bool(self._var.need_check_feed)

    def set_need_check_feed(self, need: bool) -> None:
        """Says whether what is fed must have the declared shape and type."""
        self._var.change(need_check_feed=need)

    def serialize_to_string(self) -> bytes:
        """Its message in Fluid's format."""
        from refluid.ir.desc import variable_bytes

        return variable_bytes(self._var)
