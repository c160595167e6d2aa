"""`draw_graph`: startup and main program as one picture for Graphviz."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refluid.core.writing import write_whole
from refluid.ir.dot import print_blocks
from refluid.ir.program import Program

__all__ = ["draw_graph"]

GRAPH_STYLE = {"rankdir": "TB"}
_STYLES = {"graph_attr": "graph", "node_attr": "node", "edge_attr": "edge"}


def draw_graph(startup_program: Program, main_program: Program, **kwargs: Any) -> str:
    """Writes the graph of both programs' first blocks to a file; returns its text.

    kwargs: `filename`, "graph.gv" by default; `graph_attr`, `node_attr` and `edge_attr`, mappings
    of Graphviz's attributes. Raises TypeError for anything else.
    """
    unknown = sorted(set(kwargs) - {"filename", *_STYLES})
    if unknown:
        raise TypeError(f"draw_graph takes filename, {', '.join(_STYLES)}, not {unknown[0]!r}")
    styles: dict[str, Mapping[str, object]] = {"graph": GRAPH_STYLE}
    for option, what in _STYLES.items():
        if option in kwargs:
            styles[what] = {**styles.get(what, {}), **kwargs[option]}
    blocks = {
        "startup program": startup_program.global_block(),
        "main program": main_program.global_block(),
    }
    text = print_blocks(blocks, "programs", styles=styles)
    write_whole(kwargs.get("filename", "graph.gv"), text)
    return text
