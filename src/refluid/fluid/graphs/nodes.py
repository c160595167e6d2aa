"""`IrNode`, `IrOpNode`, `IrVarNode`: nodes of a graph, as passes of users see them."""

from __future__ import annotations

from typing import Any

from refluid.core.dtypes import VarType
from refluid.fluid.graphs.descriptions import OpDesc, VarDesc
from refluid.fluid.graphs.graph import GraphNode, link, unlink
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable


class IrNode:
    """A node. Two are equal where they show the same node of the graph."""

    def __init__(self, node: GraphNode) -> None:
        self.node = node

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IrNode) and self.node is other.node

    def __hash__(self) -> int:
        return hash(self.node)

    def name(self) -> str:
        """The variable's name, the operator's type."""
        return self.node.name

    def node_type(self) -> str:
        """ "operation" or "variable"."""
        return "operation" if self.is_op() else "variable"

    def id(self) -> int:
        """Its number in the graph."""
        return self.node.number

    def is_op(self) -> bool:
        """Whether it is an operator."""
        return self.node.is_op

    def is_var(self) -> bool:
        """Whether it is a variable, or an order between operators."""
        return not self.node.is_op

    def is_ctrl_var(self) -> bool:
        """Whether it only orders operators."""
        return self.node.value is None

    def op(self) -> OpDesc | None:
        """The operator's description."""
        return OpDesc(self.node.value) if isinstance(self.node.value, Operator) else None

    def var(self) -> VarDesc | None:
        """The variable's description."""
        return VarDesc(self.node.value) if isinstance(self.node.value, Variable) else None

    def append_input(self, node: IrNode) -> None:
        """Adds an edge from a node."""
        link(node.node, self.node)

    def append_output(self, node: IrNode) -> None:
        """Adds an edge to a node."""
        link(self.node, node.node)

    def remove_input(self, node: IrNode) -> None:
        """Removes the edge from a node."""
        unlink(node.node, self.node)

    def remove_output(self, node: IrNode) -> None:
        """Removes the edge to a node."""
        unlink(self.node, node.node)

    def remove_input_by_id(self, node_id: int) -> None:
        """Removes the edge from the node with a number."""
        unlink(next(one for one in self.node.inputs if one.number == node_id), self.node)

    def remove_output_by_id(self, node_id: int) -> None:
        """Removes the edge to the node with a number."""
        unlink(self.node, next(one for one in self.node.outputs if one.number == node_id))

    def clear_inputs(self) -> None:
        """Removes all edges from others."""
        for one in list(self.node.inputs):
            unlink(one, self.node)

    def clear_outputs(self) -> None:
        """Removes all edges to others."""
        for one in list(self.node.outputs):
            unlink(self.node, one)

    @property
    def inputs(self) -> list[Any]:
        """The nodes that edges come from."""
        return [shown(one) for one in self.node.inputs]

    @property
    def outputs(self) -> list[Any]:
        """The nodes that edges go to."""
        return [shown(one) for one in self.node.outputs]


class IrVarNode(IrNode):
    """A variable."""

    def _variable(self) -> Variable:
        if not isinstance(self.node.value, Variable):
            raise TypeError(f"{self.name()} only orders operators; it has no shape and type")
        return self.node.value

    def set_shape(self, shape: list[int]) -> None:
        """Sets the sizes."""
        self._variable().shape = tuple(shape)

    def persistable(self) -> bool:
        """Whether the value is kept after a step."""
        return self._variable().persistable

    def type(self) -> VarType:
        """The kind of value."""
        return self._variable().type

    def dtype(self) -> VarType:
        """The type of elements."""
        return self._variable().dtype

    def shape(self) -> list[int]:
        """Sizes; -1 where unknown."""
        return list(self._variable().shape)


class IrOpNode(IrNode):
    """An operator."""

    def _operator(self) -> Operator:
        assert isinstance(self.node.value, Operator)
        return self.node.value

    def rename_input(self, old_input_name: str, new_input_name: str) -> None:
        """Reads another variable in the place of one."""
        self._operator().rename_input(old_input_name, new_input_name)

    def rename_output(self, old_output_name: str, new_output_name: str) -> None:
        """Writes another variable in the place of one."""
        self._operator().rename_output(old_output_name, new_output_name)

    def input(self, name: str) -> list[str]:
        """The variables of an input slot."""
        return self._operator().input(name)

    def output(self, name: str) -> list[str]:
        """The variables of an output slot."""
        return self._operator().output(name)

    def set_type(self, new_type: str) -> None:
        """Becomes an operator of another type."""
        self._operator().set_type(new_type)
        self.node.name = new_type

    def set_attr(self, name: str, val: Any) -> None:
        """Sets an attribute."""
        self._operator().set_attr(name, val)

    def input_arg_names(self) -> list[str]:
        """The variables that it reads."""
        return self._operator().input_arg_names

    def output_arg_names(self) -> list[str]:
        """The variables that it writes."""
        return self._operator().output_arg_names


def shown(node: GraphNode) -> IrOpNode | IrVarNode:
    """A node of the graph as users see it."""
    return IrOpNode(node) if node.is_op else IrVarNode(node)
