"""`refluid inspect`: what a program file holds."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from refluid.cli.console import refuse, results
from refluid.core.dtypes import VarType, to_numpy
from refluid.core.errors import EnforceNotMet
from refluid.engine.pipeline import BY_NAME, run_passes
from refluid.engine.setting import Setting
from refluid.ir.program import Program
from refluid.ir.text import print_program
from refluid.ir.variable import Variable

_MODEL_FILE = "__model__"
_HOLDS_VALUES = {VarType.LOD_TENSOR, VarType.SELECTED_ROWS}


def inspect(
    program: Annotated[
        Path, typer.Argument(help="A ProgramDesc file, or the folder of a saved model.")
    ],
    text: Annotated[
        bool, typer.Option("--text", help="Print the program's text form too.")
    ] = False,
    after: Annotated[
        str | None,
        typer.Option(
            "--after", metavar="PASS", help="Print what a pass changes, and nothing else."
        ),
    ] = None,
) -> None:
    """Summarise a program: its blocks, operators and parameters."""
    found = load_program(program)
    if after is not None:
        typer.echo(difference(found, after), nl=False)
        return
    console = results()
    console.print(blocks_table(found))
    console.print(operators_table(found))
    console.print(parameters_table(found))
    if text:
        typer.echo(print_program(found))


def difference(program: Program, name: str) -> str:
    """What a pass takes from the program's text and adds, and where it did not fire, and why."""
    if name not in BY_NAME:
        refuse(f"no pass {name!r}; there are {', '.join(BY_NAME)}")
    done = run_passes(program, [BY_NAME[name]], Setting(replicas=2))
    before, after = (print_program(one, brief=True).splitlines() for one in (program, done.program))
    lines = list(difflib.unified_diff(before, after, "before", f"after {name}", lineterm="", n=0))
    if not lines:
        lines = [f"{name} changes nothing."]
    for report in done.reports.values():
        lines += [f"not fused: {one.place}: {one.reason}" for one in report.refused]
    return "\n".join(lines) + "\n"


def load_program(path: Path) -> Program:
    """Reads a ProgramDesc file, or `__model__` in the folder of a saved model."""
    file = path / _MODEL_FILE if path.is_dir() else path
    if not file.is_file():
        inside = f" (a saved model's folder holds a file {_MODEL_FILE})" if path.is_dir() else ""
        refuse(f"no such program file: {file}{inside}")
    try:
        return Program.parse_from_string(file.read_bytes())
    except EnforceNotMet as error:
        refuse(f"{file} is no ProgramDesc file: {error}")


def persistables(program: Program) -> list[Variable]:
    """Parameters, and everything else that is kept between runs and saved."""
    return [v for v in program.list_vars() if v.persistable and v.type in _HOLDS_VALUES]


def blocks_table(program: Program) -> Table:
    table = _table("blocks", "block", "parent", "operators", "variables")
    for block in program.blocks:
        parent = "" if block.parent_idx < 0 else str(block.parent_idx)
        table.add_row(str(block.idx), parent, str(len(block.ops)), str(len(block.vars)))
    return table


def operators_table(program: Program) -> Table:
    counts = Counter(op.type for block in program.blocks for op in block.ops)
    table = _table("operators", "type", "count", left={"type"})
    for kind, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        table.add_row(kind, str(count))
    return table


def parameters_table(program: Program) -> Table:
    columns = ("name", "shape", "type", "numbers", "bytes")
    table = _table("persistable variables", *columns, left={"name", "shape", "type"})
    table.show_footer = True
    variables = persistables(program)
    for var in variables:
        dtype = VarType(var.dtype).name.lower()
        row = (var.name, str(list(var.shape)), dtype, f"{numbers(var):,}", decimal(size(var)))
        table.add_row(*map(Text, row))
    table.columns[0].footer = f"{len(variables)} in all"
    table.columns[3].footer = f"{sum(map(numbers, variables)):,}"
    table.columns[4].footer = decimal(sum(map(size, variables)))
    return table


def numbers(var: Variable) -> int:
    """How many numbers it holds; an unknown size counts as one."""
    return math.prod(1 if extent < 0 else extent for extent in var.shape)


def size(var: Variable) -> int:
    """Its values in bytes."""
    return numbers(var) * to_numpy(var.dtype).itemsize


def _table(title: str, *columns: str, left: Iterable[str] = ()) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", overflow="fold")
    return table
