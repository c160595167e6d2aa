"""Operators and variables as Fluid's descriptions spell them: by methods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from refluid.core.dtypes import VarType
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable


class OpDesc:
    """An operator: `desc.type()`, `desc.input("X")`, `desc.attr("axis")`."""

    def __init__(self, op: Operator) -> None:
        self._operator = op
        self.has_attr, self.attr, self.attr_names = op.has_attr, op.attr, lambda: op.attr_names
        self.input, self.output = op.input, op.output
        self._set_attr, self._rename_input, self._rename_output = (
            op.set_attr,
            op.rename_input,
            op.rename_output,
        )

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

    def input_arg_names(self) -> list[str]:
        """The variables that it reads."""
        return self._operator.input_arg_names

    def output_arg_names(self) -> list[str]:
        """The variables that it writes."""
        return self._operator.output_arg_names

    def set_input(self, slot: str, names: Iterable[str]) -> None:
        """Reads these variables in a slot."""
        self._operator.set_input(slot, names)

    def set_output(self, slot: str, names: Iterable[str]) -> None:
        """Writes these variables in a slot."""
        self._operator.set_output(slot, names)


class VariableDesc:
    """A variable: `desc.shape()`, `desc.set_shape([2])`."""

    def __init__(self, var: Variable) -> None:
        self._var = var

    def name(self) -> str:
        """Its name."""
        return self._var.name

    def type(self) -> VarType:
        """The kind of value."""
        return self._var.type

    def dtype(self) -> VarType:
        """The type of elements."""
        return self._var.dtype

    def set_dtype(self, dtype: Any) -> None:
        """Sets the type of elements."""
        self._var.dtype = dtype

    def shape(self) -> list[int]:
        """Sizes; -1 where unknown."""
        return list(self._var.shape)

    def set_shape(self, shape: Iterable[int]) -> None:
        """Sets the sizes."""
        self._var.shape = tuple(shape)

    def lod_level(self) -> int:
        """Levels of sequences."""
        return self._var.lod_level

    def persistable(self) -> bool:
        """Whether the value is kept after a step."""
        return self._var.persistable

    def set_persistable(self, persistable: bool) -> None:
        """Says whether the value is kept after a step."""
        self._var.persistable = persistable
