"""Operators and variables of a graph, as slim's strategies see them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from refluid.ir.attributes import OpRole
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable

OPTIMIZER_OPS = [
    *("momentum", "lars_momentum", "adagrad", "adam", "adamax", "dpsgd"),
    *("decayed_adagrad", "adadelta", "rmsprop"),
]


class HasOperators(Protocol):
    """What has operators."""

    def ops(self) -> list[OpWrapper]:
        """All of them."""


class VarWrapper:
    """A variable of a graph."""

    def __init__(self, var: Variable, graph: HasOperators) -> None:
        assert isinstance(var, Variable)
        self._var, self._graph = var, graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VarWrapper) and self.name() == other.name()

    def __hash__(self) -> int:
        return hash(self.name())

    def name(self) -> str:
        return str(self._var.name)

    def shape(self) -> tuple[int, ...]:
        return tuple(self._var.shape)

    def set_shape(self, shape: Sequence[int]) -> None:
        self._var.shape = shape

    def inputs(self) -> list[OpWrapper]:
        """The operators that write it."""
        return [op for op in self._graph.ops() if self in op.all_outputs()]

    def outputs(self) -> list[OpWrapper]:
        """The operators that read it."""
        return [op for op in self._graph.ops() if self in op.all_inputs()]


class OpWrapper:
    """An operator of a graph."""

    def __init__(self, op: Operator, graph: HasOperators) -> None:
        assert isinstance(op, Operator)
        self.op, self._graph = op, graph
        self._op = op  # Fluid's name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpWrapper) and self.op is other.op

    def __hash__(self) -> int:
        return id(self.op)

    def all_inputs(self) -> list[VarWrapper]:
        return self._vars(self.op.input_arg_names)

    def all_outputs(self) -> list[VarWrapper]:
        return self._vars(self.op.output_arg_names)

    def inputs(self, name: str) -> list[VarWrapper]:
        """The variables in an input slot."""
        return self._vars(self.op.input(name))

    def outputs(self, name: str) -> list[VarWrapper]:
        """The variables in an output slot."""
        return self._vars(self.op.output(name))

    def idx(self) -> int:
        return self.op.idx

    def type(self) -> str:
        return self.op.type

    def is_bwd_op(self) -> bool:
        """Whether it computes gradients."""
        return bool(self.op.role & OpRole.BACKWARD)

    def is_opt_op(self) -> bool:
        """Whether it updates a parameter."""
        return self.type() in OPTIMIZER_OPS or bool(self.op.role & OpRole.OPTIMIZE)

    def attr(self, name: str) -> Any:
        return self.op.attr(name)

    def set_attr(self, key: str, value: Any) -> None:
        self.op.set_attr(key, value)

    def _vars(self, names: Iterable[str]) -> list[VarWrapper]:
        found = (self.op.block.find_var_recursive(name) for name in names)
        return [VarWrapper(var, self._graph) for var in found if var is not None]
