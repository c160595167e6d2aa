"""Graph: the first block of a program as nodes. A variable has a node for each time it is written.

`Graph(program)` copies the program, and `to_program` makes one of the nodes that are there
then: operators in an order that edges allow, and that has each version of a variable read before
the next one is written; where several may come next, the one that was made first does.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import pairwise

from refluid.fluid.graphs.descriptions import ProgramDesc
from refluid.ir.editor import Editor
from refluid.ir.names import EMPTY
from refluid.ir.operator import Operator
from refluid.ir.program import Program, copy_op
from refluid.ir.variable import Variable


class GraphNode:
    """An operator, a version of a variable, or an order between operators (neither of them)."""

    def __init__(self, number: int, name: str, value: Operator | Variable | None) -> None:
        self.number = number
        self.name = name
        self.value = value
        self.inputs: list[GraphNode] = []
        self.outputs: list[GraphNode] = []

    @property
    def is_op(self) -> bool:
        return isinstance(self.value, Operator)


class Graph:
    """Nodes and edges, made of a program."""

    def __init__(self, program: Program | ProgramDesc) -> None:
        given = program._program if isinstance(program, ProgramDesc) else program
        self.program = given.clone()
        self.block = self.program.global_block()
        self.nodes: dict[int, GraphNode] = {}
        self._count = 0
        latest: dict[str, GraphNode] = {}
        for op in self.block.ops:
            node = self.add(op.type, op)
            for name in _named(op.input_arg_names):
                if name not in latest:
                    latest[name] = self._add_version(name)
                link(latest[name], node)
            for name in _named(op.output_arg_names):
                latest[name] = self._add_version(name)
                link(node, latest[name])

    def add(self, name: str, value: Operator | Variable | None) -> GraphNode:
        """Adds a node without edges."""
        node = GraphNode(self._count, name, value)
        self._count += 1
        self.nodes[node.number] = node
        return node

    def _add_version(self, name: str) -> GraphNode:
        var = self.block.find_var_recursive(name) or self.block.create_var(name=name)
        return self.add(name, var)

    def remove(self, nodes: Iterable[GraphNode]) -> None:
        """Removes nodes with their edges."""
        for node in nodes:
            for before in node.inputs:
                before.outputs.remove(node)
            for after in node.outputs:
                after.inputs.remove(node)
            node.inputs, node.outputs = [], []
            self.nodes.pop(node.number, None)

    def sorted_operators(self) -> list[GraphNode]:
        """Operators in an order for running; ValueError where edges form a circle."""
        after = self._successors()
        open_inputs = dict.fromkeys(after, 0)
        for followers in after.values():
            for follower in followers:
                open_inputs[follower] += 1
        ready = [number for number, count in open_inputs.items() if not count]
        heapq.heapify(ready)
        found = []
        while ready:
            number = heapq.heappop(ready)
            found.append(self.nodes[number])
            for follower in after[number]:
                open_inputs[follower] -= 1
                if not open_inputs[follower]:
                    heapq.heappush(ready, follower)
        if len(found) < len(after):
            raise ValueError("the graph's edges form a circle")
        return found

    def _successors(self) -> dict[int, set[int]]:
        """For each operator those that come later: readers, and writers of the next version."""
        after: dict[int, set[int]] = {n.number: set() for n in self.nodes.values() if n.is_op}
        versions: dict[str, list[GraphNode]] = {}
        for node in self.nodes.values():
            if not node.is_op:
                versions.setdefault(node.name, []).append(node)
                for writer in node.inputs:
                    after[writer.number] |= {reader.number for reader in node.outputs}
        for same in versions.values():
            for version, following in pairwise(same):
                for writer in following.inputs:
                    for one in (*version.inputs, *version.outputs):
                        if one is not writer:
                            after[one.number].add(writer.number)
        return after

    def to_program(self) -> Program:
        """A program of the operators that are in the graph."""
        program = self.program.clone()
        block = program.global_block()
        Editor(block).assign(
            copy_op(node.value, block)
            for node in self.sorted_operators()
            if isinstance(node.value, Operator)
        )
        used = {node.name for node in self.nodes.values() if not node.is_op}
        had = {name for op in self.program.global_block().ops for name in op.arg_names}
        Editor(block).forget_variables(had - used)
        return program


def link(before: GraphNode, after: GraphNode) -> None:
    """Adds an edge, once."""
    if after not in before.outputs:
        before.outputs.append(after)
        after.inputs.append(before)


def unlink(before: GraphNode, after: GraphNode) -> None:
    """Removes an edge."""
    before.outputs.remove(after)
    after.inputs.remove(before)


def _named(names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name != EMPTY]
