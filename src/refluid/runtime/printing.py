"""The one place that writes Python: the text of a plan's steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from refluid.runtime.steps import (
    Bind,
    Call,
    Clear,
    Compound,
    ExchangeStart,
    ExchangeWait,
    For,
    Free,
    Function,
    If,
    Load,
    Pause,
    Return,
    Step,
    Store,
    While,
)
from refluid.runtime.trees import CellName, Formula, Known, Name, Tree

# So many names are cleared in one line.
_IN_A_LINE = 12
PrintedLine = tuple[str, Step]


def printed(steps: Iterable[Step], indent: int = 1) -> Iterator[PrintedLine]:
    """Lines of the steps, each with the step that it is of."""
    space = "    " * indent
    for step in steps:
        if isinstance(step, Compound):
            yield from _block(step, indent)
        else:
            for text in _STEPS[type(step)](step):
                yield space + text, step


def _block(step: Compound, indent: int) -> Iterator[PrintedLine]:
    space = "    " * indent
    yield f"{space}{_HEADS[type(step)](step)}:", step
    if isinstance(step, Function):
        changed = sorted(one for one in step.writes if isinstance(one, Name) and one != step.head)
        if changed:
            yield f"{space}    nonlocal {', '.join(changed)}", step
    for number, body in enumerate(step.bodies):
        if number and body:
            yield f"{space}else:", step
        if body:
            yield from printed(body, indent + 1)
        elif not number:
            yield f"{space}    pass", step


def text_of(step: Step) -> str:
    """The lines of one step."""
    return "\n".join(text for text, _ in printed([step], 0))


def show(tree: Tree) -> str:
    """Python of what a step is given. Raises TypeError for what can't be written down."""
    kind = type(tree)
    if kind in _LEAVES:
        return _LEAVES[kind](tree)
    if isinstance(tree, int | str):
        return repr(tree)
    if isinstance(tree, tuple):
        return _tuple(tree)
    raise TypeError(f"{tree!r} can't be written into a plan")


def _bare(tree: Tree) -> str:
    """The same; a tuple without parentheses, as it stands left of `=` and after `return`."""
    if not isinstance(tree, tuple) or not tree:
        return show(tree)
    return f"{', '.join(map(show, tree))}{',' if len(tree) == 1 else ''}"


def _tuple(tree: Any) -> str:
    return f"({', '.join(map(show, tree))}{',' if len(tree) == 1 else ''})"


def _number(value: float) -> str:
    return repr(value) if abs(value) != float("inf") and value == value else f"float('{value}')"


def _cell(cell: CellName) -> str:
    return f"C[{cell.number}]" if cell.rank is None else f"C[{cell.rank}][{cell.number}]"


_LEAVES: Mapping[type, Callable[[Any], str]] = {
    Name: str,
    Known: str,
    CellName: _cell,
    Formula: lambda one: one.form.format(*map(show, one.parts)),
    list: lambda one: f"[{', '.join(map(show, one))}]",
    tuple: _tuple,
    float: _number,
    bool: repr,
    int: repr,
    str: repr,
    type(None): repr,
}


def _assigned(target: Tree, value: str) -> list[str]:
    return [value if target is None else f"{_bare(target)} = {value}"]


def _call(step: Call) -> list[str]:
    given = [show(one) for one in step.args]
    given += [f"{name}={show(one)}" for name, one in step.kwargs.items()]
    return _assigned(step.target, f"{step.function}({', '.join(given)})")


def _free(step: Free) -> list[str]:
    names = ", ".join(step.names)
    return [f"{step.garbage}.add({names})"] * bool(step.garbage) + [f"del {names}"]


def _clear(step: Clear) -> list[str]:
    return [
        " = ".join(step.names[start : start + _IN_A_LINE]) + " = None"
        for start in range(0, len(step.names), _IN_A_LINE)
    ]


_STEPS: Mapping[type, Callable[[Any], list[str]]] = {
    Bind: lambda one: _assigned(one.target, show(one.value)),
    Call: _call,
    ExchangeStart: _call,
    ExchangeWait: lambda one: [f"{one.work}.wait()"],
    Load: lambda one: [f"{one.target} = {_cell(one.cell)}.value"],
    Store: lambda one: [f"{_cell(one.cell)}.value = {show(one.value)}"],
    Free: _free,
    Clear: _clear,
    Pause: lambda one: _assigned(one.target, f"yield {_bare(one.value)}"),
    Return: lambda one: [f"return {_bare(one.value)}"],
}

_HEADS: Mapping[type, Callable[[Any], str]] = {
    If: lambda one: f"if {show(one.head)}",
    While: lambda one: f"while {show(one.head)}",
    For: lambda one: f"for {one.target} in {show(one.head)}",
    Function: lambda one: f"def {one.head}()",
}
