"""Operators of simulated quantisation put into a graph, with what they keep in the scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.fluid.graphs.ir_graph import IrGraph, IrNode, IrOpNode, IrVarNode
from refluid.ir.attributes import NAMESCOPE, ROLE

# The inputs of an operator that are quantised; its others (a bias, say) are not.
SLOTS = {
    "conv2d": ("Input", "Filter"),
    "depthwise_conv2d": ("Input", "Filter"),
    "mul": ("X", "Y"),
    "matmul": ("X", "Y"),
}
# Kinds of quantisation of weights, and what brings whole numbers back.
WEIGHTS = ("abs_max", "channel_wise_abs_max")
DEQUANTIZE = "fake_dequantize_max_abs"
DEQUANTIZE_BY_CHANNEL = "fake_channel_wise_dequantize_max_abs"
Nodes = Mapping[str, IrVarNode | list[IrVarNode]]


def insert(
    graph: IrGraph, type: str, attrs: Mapping[str, Any], inputs: Nodes, outputs: Nodes
) -> IrOpNode:
    """Adds a forward operator with its edges."""
    slots: list[Any] = [dict(inputs), dict(outputs)]
    op = graph.create_op_node(type, {ROLE: 0, **attrs}, *slots)
    for one in _all(inputs):
        graph.link_to(one, op)
    for one in _all(outputs):
        graph.link_to(op, one)
    return op


def _all(nodes: Nodes) -> list[IrNode]:
    lists = (one if isinstance(one, list) else [one] for one in nodes.values())
    return [node for several in lists for node in several]


def like(graph: IrGraph, var: IrVarNode, ending: str) -> IrVarNode:
    """A variable of the same kind, named after another one."""
    return graph.create_var_node(var.name() + ending, var.type(), var.shape(), var.dtype())


class ScopeValues:
    """Variables of a graph that outlast a step, and their first values in a scope."""

    def __init__(self, scope: Scope | None, place: Place | None) -> None:
        self._scope, self._place = scope, place

    def array(self, name: str) -> Any:
        """The value of a variable."""
        return np.array(self._tensor(name))

    def put(self, name: str, array: Any) -> None:
        """Sets the value of a variable."""
        self._tensor(name).set(array, self._place)

    def kept(self, graph: IrGraph, name: str, value: Any, dtype: VarType) -> IrVarNode:
        """A variable that starts with `value`, unless the scope has one of that name already."""
        made = graph.create_persistable_node(name, VarType.LOD_TENSOR, value.shape, dtype)
        if self._scope is not None and self._place is not None:
            found = self._scope.find_var(name)
            if found is None or not found.get_tensor()._is_initialized():
                self.put(name, value)
        return made

    def one(self, graph: IrGraph, key: str, value: float, like_var: IrVarNode) -> IrVarNode:
        """A number that is kept, with a name of its own that begins with `key`."""
        array = np.array([value], "float32")
        return self.kept(graph, names.generate(key), array, like_var.dtype())

    def _tensor(self, name: str) -> Any:
        if self._scope is None:
            raise ValueError(f"scope must be given: {name} has its value there")
        return self._scope.var(name).get_tensor()


def quantized_inputs(op: IrOpNode) -> list[IrVarNode]:
    """The inputs of an operator that are quantised."""
    names = [name for slot in SLOTS[op.name()] for name in op.input(slot)]
    return [var for var in op.inputs if var.name() in names]


def skips(op: IrOpNode, patterns: Sequence[str] | None) -> bool:
    """Whether an operator was made in a `name_scope` that contains one of these."""
    made = op.op()
    scope = made.attr(NAMESCOPE) or "" if made is not None else ""
    return any(pattern in scope for pattern in patterns or ())


def quantizable(types: Sequence[str]) -> list[str]:
    """These types of operators; ValueError for others than `SLOTS` has."""
    unknown = [one for one in types if one not in SLOTS]
    if unknown:
        raise ValueError(f"quantizable_op_type: {unknown} can't be quantised; {list(SLOTS)} can")
    return list(types)


def one_of(name: str, value: str, known: Sequence[str]) -> None:
    """ValueError for a value that isn't known."""
    if value not in known:
        raise ValueError(f"Unknown {name} : {value!r}. It can only be one of {', '.join(known)}.")
