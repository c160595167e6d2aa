"""A program as a graph in Graphviz's language: boxes are operators, ellipses variables."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from refluid.ir.attributes import OpRole
from refluid.ir.block import Block
from refluid.ir.names import EMPTY
from refluid.ir.operator import Operator
from refluid.ir.program import Program

_COLORS = (
    (OpRole.OPTIMIZE, "#f4cccc"),
    (OpRole.BACKWARD, "#fce5cd"),
    (OpRole.LR_SCHED, "#d9ead3"),
)
_FORWARD = "#cfe2f3"


def print_dot(program: Program, title: str = "program") -> str:
    """The graph of all blocks, to be drawn with `dot -Tsvg`.

    Each write to a variable makes a node of its own, so the graph has no cycles.
    """
    return print_blocks({f"block {block.idx}": block for block in program.blocks}, title)


def print_blocks(
    blocks: Mapping[str, Block],
    title: str,
    *,
    highlights: Collection[str] = (),
    styles: Mapping[str, Mapping[str, object]] | None = None,
) -> str:
    """The graph of some blocks with their labels.

    highlights: variables and operator types drawn in red. styles: Graphviz's attributes of
    `graph`, `node` and `edge`.
    """
    lines = [f"digraph {json.dumps(title)} {{", "  node [fontsize=10];"]
    for what, attributes in (styles or {}).items():
        given = ", ".join(f"{name}={json.dumps(str(one))}" for name, one in attributes.items())
        lines.append(f"  {what} [{given}];")
    for number, (label, block) in enumerate(blocks.items()):
        lines += _block(block, number, label, highlights)
    return "\n".join([*lines, "}"]) + "\n"


def _block(block: Block, number: int, label: str, highlights: Collection[str]) -> list[str]:
    version: dict[str, int] = {}
    shown: set[str] = set()
    lines = [f"  subgraph cluster_{number} {{", f"    label={json.dumps(label)};"]

    def variable(name: str) -> str:
        node = f"v{number}_{name}_{version.get(name, 0)}"
        if node not in shown:
            shown.add(node)
            text = json.dumps(_label(block, name))
            lines.append(f"    {json.dumps(node)} [label={text}{_mark(name, highlights)}];")
        return json.dumps(node)

    for position, op in enumerate(block.ops):
        node = f"o{number}_{position}"
        text = json.dumps(op.type)
        lines.append(
            f'    {node} [label={text}, shape=box, style=filled, fillcolor="{_color(op)}"'
            f"{_mark(op.type, highlights)}];"
        )
        lines += [f"    {variable(name)} -> {node};" for name in _named(op.input_arg_names)]
        for name in _named(op.output_arg_names):
            version[name] = version.get(name, 0) + 1
            lines.append(f"    {node} -> {variable(name)};")
    return [*lines, "  }"]


def _mark(name: str, highlights: Collection[str]) -> str:
    return ", color=red, penwidth=3" if name in highlights else ""


def _named(names: list[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name != EMPTY]


def _label(block: Block, name: str) -> str:
    var = block.find_var_recursive(name)
    if var is None or not var.has_description():
        return name
    return f"{name}\n{list(var.shape)}"


def _color(op: Operator) -> str:
    return next((color for flag, color in _COLORS if op.role & flag), _FORWARD)
