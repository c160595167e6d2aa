"""`IrGraph`: a program as a graph of operators and variables, for passes of users."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from refluid.core.dtypes import VarType
from refluid.core.writing import write_whole
from refluid.fluid.graphs.graph import Graph
from refluid.fluid.graphs.nodes import IrNode, IrOpNode, IrVarNode, shown
from refluid.ir.dot import print_blocks
from refluid.ir.operator import Operator
from refluid.ir.program import Program

__all__ = ["IrGraph", "IrNode", "IrOpNode", "IrVarNode"]

_ORDER = "__control_var"


class IrGraph:
    """The nodes of a graph, and how to change them.

        graph = IrGraph(core.Graph(program.desc), for_test=True)
        ...
        program = graph.to_program()

    graph: a `core.Graph`. for_test: whether it is one for inference.
    """

    def __init__(self, graph: Graph, for_test: bool = False) -> None:
        if not isinstance(graph, Graph):
            raise TypeError(f"graph must be a core.Graph, not {type(graph).__name__}")
        self.graph = graph
        self._for_test = for_test

    def clone(self) -> IrGraph:
        """A graph of a copy of the program."""
        return IrGraph(Graph(self.graph.to_program()), self._for_test)

    def is_test(self) -> bool:
        """Whether the graph is for inference."""
        return self._for_test

    def all_nodes(self) -> set[IrNode]:
        """All nodes."""
        return {shown(node) for node in self.graph.nodes.values()}

    def all_var_nodes(self) -> set[IrVarNode]:
        """The nodes of variables: one for each time that one is written."""
        return {node for node in self.all_nodes() if isinstance(node, IrVarNode)}

    def all_persistable_nodes(self) -> set[IrVarNode]:
        """The nodes of variables that are kept after a step."""
        return {
            node for node in self.all_var_nodes() if not node.is_ctrl_var() and node.persistable()
        }

    def all_op_nodes(self) -> set[IrOpNode]:
        """The operators."""
        return {node for node in self.all_nodes() if isinstance(node, IrOpNode)}

    def _find_node_by_name(self, nodes: Iterable[IrNode], node_name: str) -> IrNode:
        """The one of these nodes that has the name; AssertionError where none has."""
        found = next((node for node in nodes if node.name() == node_name), None)
        assert found is not None, f"Cannot find the target node {node_name} in the given nodes"
        return found

    def create_persistable_node(
        self, name: str, var_type: VarType, shape: Iterable[int], var_dtype: Any
    ) -> IrVarNode:
        """Adds a variable that is kept after a step."""
        return self._create(name, var_type, shape, var_dtype, persistable=True)

    def create_var_node(
        self, name: str, var_type: VarType, shape: Iterable[int], var_dtype: Any
    ) -> IrVarNode:
        """Adds a variable."""
        return self._create(name, var_type, shape, var_dtype, persistable=False)

    def _create(
        self, name: str, kind: VarType, shape: Iterable[int], dtype: Any, *, persistable: bool
    ) -> IrVarNode:
        var = self.graph.block.create_var(
            name=name, type=kind, shape=list(shape), dtype=dtype, persistable=persistable
        )
        return IrVarNode(self.graph.add(name, var))

    def create_var_node_from_desc(self, var_desc: Any) -> IrVarNode:
        """Adds a version of a variable: `node.var()` of another node."""
        name = var_desc.name()
        block = self.graph.block
        var = block.find_var_recursive(name)
        if var is None:
            var = var_desc._var.copy_to(block)
        return IrVarNode(self.graph.add(name, var))

    def create_op_node(
        self,
        op_type: str,
        attrs: Mapping[str, Any],
        inputs: Mapping[str, IrNode | list[IrNode]],
        outputs: Mapping[str, IrNode | list[IrNode]],
    ) -> IrOpNode:
        """Adds an operator, whose edges `link_to` makes. inputs, outputs: nodes by slot."""
        op = self.graph.block.make_op(op_type, _names(inputs), _names(outputs), dict(attrs))
        return IrOpNode(self.graph.add(op_type, op))

    def create_op_node_from_desc(self, op_desc: Any) -> IrOpNode:
        """Adds a copy of an operator: `node.op()` of another node."""
        op: Operator = op_desc._operator
        copy = self.graph.block.make_op(op.type, op.inputs, op.outputs, op.all_attrs())
        return IrOpNode(self.graph.add(op.type, copy))

    def create_control_dep_var(self) -> IrVarNode:
        """Adds a node that only orders operators: those before it and those after it."""
        return IrVarNode(self.graph.add(f"{_ORDER}@{len(self.graph.nodes)}", None))

    def link_to(self, node_in: IrNode, node_out: IrNode) -> None:
        """Adds an edge between nodes of the graph."""
        self._check(node_in, node_out)
        node_in.append_output(node_out)

    def update_input_link(
        self, old_input_node: IrNode, new_input_node: IrNode, op_node: IrOpNode
    ) -> None:
        """Has an operator read another node in the place of one."""
        self._check(old_input_node, new_input_node, op_node)
        old_input_node.remove_output(op_node)
        new_input_node.append_output(op_node)
        op_node.rename_input(old_input_node.name(), new_input_node.name())

    def update_output_link(
        self, old_output_node: IrNode, new_output_node: IrNode, op_node: IrOpNode
    ) -> None:
        """Has an operator write another node in the place of one."""
        self._check(old_output_node, new_output_node, op_node)
        old_output_node.remove_input(op_node)
        op_node.append_output(new_output_node)
        op_node.rename_output(old_output_node.name(), new_output_node.name())

    def safe_remove_nodes(self, remove_nodes: Iterable[IrNode] | IrNode) -> None:
        """Removes nodes with their edges."""
        nodes = [remove_nodes] if isinstance(remove_nodes, IrNode) else list(remove_nodes)
        self._check(*nodes)
        self.graph.remove(node.node for node in nodes)

    def _check(self, *nodes: IrNode) -> None:
        for node in nodes:
            if self.graph.nodes.get(node.id()) is not node.node:
                raise ValueError(f"{node.name()} is no node of this graph")

    def resolve_hazard(self) -> None:
        """Changes nothing: versions of a variable are kept apart by the order of operators."""

    def has_circle(self) -> bool:
        """Whether there is no order in which the operators can run."""
        try:
            self.graph.sorted_operators()
        except ValueError:
            return True
        return False

    def graph_num(self) -> int:
        """In how many parts the graph falls."""
        left, count = dict(self.graph.nodes), 0
        while left:
            count += 1
            open_nodes = [left.popitem()[1]]
            while open_nodes:
                node = open_nodes.pop()
                around = [one for one in (*node.inputs, *node.outputs) if one.number in left]
                open_nodes += [left.pop(one.number) for one in around if one.number in left]
        return count

    def topology_sort(self) -> list[IrOpNode]:
        """The operators in an order for running."""
        return [IrOpNode(node) for node in self.graph.sorted_operators()]

    def build_adjacency_list(self) -> dict[IrOpNode, set[IrOpNode]]:
        """For each operator those whose results it reads."""
        return {
            node: {IrOpNode(writer) for var in node.node.inputs for writer in var.inputs}
            for node in self.all_op_nodes()
        }

    def draw(
        self,
        save_path: str,
        name: str,
        marked_nodes: Collection[IrNode] | None = None,
        remove_ctr_var: bool = True,
    ) -> None:
        """Writes `name.dot` into a folder, for Graphviz. marked_nodes: drawn in red."""
        folder = Path(save_path)
        folder.mkdir(parents=True, exist_ok=True)
        block = self.to_program().global_block()
        marked = {node.name() for node in marked_nodes or ()}
        text = print_blocks({name: block}, name, highlights=marked)
        write_whole(folder / f"{name}.dot", text)

    def to_program(self) -> Program:
        """A program of the operators that are in the graph."""
        return self.graph.to_program()


def _names(slots: Mapping[str, IrNode | list[IrNode]]) -> dict[str, list[str]]:
    return {
        slot: [node.name() for node in (nodes if isinstance(nodes, list) else [nodes])]
        for slot, nodes in slots.items()
    }
