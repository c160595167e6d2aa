"""Graphs in Graphviz's language, and a picture of operators and their variables."""

from __future__ import annotations

import logging
import shutil
import subprocess
from pathlib import Path
from typing import Any

from refluid.core.writing import write_whole

__all__ = ["Edge", "Graph", "GraphPreviewGenerator", "Node", "Rank", "crepr"]

_LOGGER = logging.getLogger("refluid")


def crepr(v: Any) -> str:
    """A value as Graphviz spells it: text in quotes."""
    return f'"{v}"' if isinstance(v, str) else str(v)


class Rank:
    """Nodes that are drawn in one line."""

    def __init__(self, kind: str, name: str, priority: int) -> None:
        self.kind = kind
        self.name = name
        self.priority = priority
        self.nodes: list[Node] = []

    def __str__(self) -> str:
        if not self.nodes:
            return ""
        return f"{{rank={self.kind}; {','.join(node.name for node in self.nodes)}}}"


class Graph:
    """A directed graph. attrs: attributes of Graphviz."""

    rank_counter = 0

    def __init__(self, title: str, **attrs: Any) -> None:
        self.title = title
        self.attrs = attrs
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.rank_groups: dict[str, Rank] = {}

    def code(self) -> str:
        """The graph as text."""
        return str(self)

    def rank_group(self, kind: str, priority: int) -> str:
        """Begins a line of nodes; returns its name."""
        name = f"rankgroup-{Graph.rank_counter}"
        Graph.rank_counter += 1
        self.rank_groups[name] = Rank(kind, name, priority)
        return name

    def node(self, label: str, prefix: str, description: str = "", **attrs: Any) -> Node:
        """Adds a node. `rank` names the line that it stands in."""
        rank = attrs.pop("rank", None)
        node = Node(label, prefix, description, **attrs)
        if rank is not None:
            self.rank_groups[rank].nodes.append(node)
        self.nodes.append(node)
        return node

    def edge(self, source: Node, target: Node, **attrs: Any) -> Edge:
        """Adds an edge."""
        edge = Edge(source, target, **attrs)
        self.edges.append(edge)
        return edge

    def compile(self, dot_path: str) -> str:
        """Writes the text to a file and draws it as PDF beside, where `dot` is installed."""
        write_whole(dot_path, str(self))
        image = str(Path(dot_path).with_suffix(".pdf"))
        dot = shutil.which("dot")
        if dot is None:
            _LOGGER.warning(f"{dot_path} is not drawn: Graphviz's program dot is not installed")
        else:
            subprocess.run([dot, "-Tpdf", dot_path, "-o", image], check=True)
            _LOGGER.warning(f"the graph is drawn in {image}")
        return image

    def show(self, dot_path: str) -> None:
        """As `compile`."""
        self.compile(dot_path)

    def __str__(self) -> str:
        lines = ["digraph G {", f"title = {crepr(self.title)}"]
        lines += [f"{name}={crepr(value)};" for name, value in self.attrs.items()]
        lines += [str(node) for node in self.nodes]
        ranks = sorted(self.rank_groups.values(), key=lambda rank: rank.priority)
        lines += [str(rank) for rank in ranks]
        lines += [str(edge) for edge in self.edges]
        return "\n".join([*lines, "}"])


class Node:
    """A node with a label."""

    counter = 1

    def __init__(self, label: str, prefix: str, description: str = "", **attrs: Any) -> None:
        self.name = f"{prefix}_{Node.counter}"
        self.label = label
        self.description = description
        self.attrs = attrs
        Node.counter += 1

    def __str__(self) -> str:
        return f"{self.name} [{_options({'label': self.label, **self.attrs})}]"


class Edge:
    """An edge between two nodes."""

    def __init__(self, source: Node, target: Node, **attrs: Any) -> None:
        self.source = source
        self.target = target
        self.attrs = attrs

    def __str__(self) -> str:
        options = f" [{_options(self.attrs)}]" if self.attrs else ""
        return f"{self.source.name} -> {self.target.name}{options}"


def _options(attrs: dict[str, Any]) -> str:
    return ",".join(f"{name}={crepr(value)}" for name, value in attrs.items())


class GraphPreviewGenerator:
    """Draws operators, their variables and parameters."""

    def __init__(self, title: str) -> None:
        self.graph = Graph(title, layout="dot", concentrate="true", rankdir="TB")
        self.op_rank = self.graph.rank_group("same", 2)
        self.param_rank = self.graph.rank_group("same", 1)
        self.arg_rank = self.graph.rank_group("same", 0)

    def __call__(self, path: str = "temp.dot", show: bool = False) -> None:
        """Writes the picture to a file. show: draws it too."""
        if show:
            self.graph.show(path)
        else:
            self.graph.compile(path)

    def add_param(self, name: str, data_type: Any, highlight: bool = False) -> Node:
        """Adds a parameter."""
        color = "red" if highlight else "white"
        label = f"{name}\\n{data_type}"
        return self.graph.node(
            label, "param", name, shape="box", style="rounded,filled", fillcolor=color
        )

    def add_op(self, opType: str, **kwargs: Any) -> Node:
        """Adds an operator. `highlight`: in red."""
        color = "red" if kwargs.pop("highlight", False) else "lightskyblue"
        return self.graph.node(
            opType, "op", opType, shape="box", style="filled", fillcolor=color, **kwargs
        )

    def add_arg(self, name: str, highlight: bool = False) -> Node:
        """Adds a variable."""
        color = "red" if highlight else "white"
        return self.graph.node(name, "arg", name, shape="ellipse", style="filled", fillcolor=color)

    def add_edge(self, source: Node, target: Node, **kwargs: Any) -> Edge:
        """Adds an edge. `highlight`: in red."""
        color = "red" if kwargs.pop("highlight", False) else "black"
        return self.graph.edge(source, target, color=color, **kwargs)
