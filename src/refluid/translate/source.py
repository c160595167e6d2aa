"""The syntax tree of a function's definition, with the places of the file that it stands in."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_PARSED = 64
_parsed: dict[str, tuple[int, ast.Module]] = {}


class Untranslatable(Exception):
    """A function that can't become a program; the message says where, why, and what to do."""


@dataclass(frozen=True)
class Definition:
    """Where a function is defined. owner: the class whose body the definition stands in."""

    node: FunctionNode
    file: str
    owner: str | None


def refuse(file: str, node: ast.AST, problem: str) -> Untranslatable:
    """The error for something at a place of a file."""
    line = getattr(node, "lineno", 0)
    text = linecache.getline(file, line).strip()
    return Untranslatable(f"{file}:{line}: {problem}\n    {text}")


def definition(function: FunctionType) -> Definition:
    """The definition of a function. Untranslatable where its source can't be found."""
    code = function.__code__
    found = [(node, owner) for node, owner in _functions(_tree(function), None) if _is(node, code)]
    if len(found) > 1:
        found = [one for one in found if _holds(one[0], code)] or found
    if len(found) != 1:
        several = "several functions start" if found else "no function starts"
        raise Untranslatable(
            f"{code.co_filename}:{code.co_firstlineno}: the source of {code.co_name!r} can't be "
            f"told: {several} in this line of the file; has the file changed since?"
        )
    return Definition(found[0][0], code.co_filename, found[0][1])


def _tree(function: FunctionType) -> ast.Module:
    file = function.__code__.co_filename
    lines = linecache.getlines(file, function.__globals__)
    if not lines:
        raise Untranslatable(
            f"{file}: the source of {function.__qualname__!r} isn't there, and a program is made "
            "of a function's source; define it in a file"
        )
    text = "".join(lines)
    known = _parsed.get(file)
    if known is None or known[0] != hash(text):
        while len(_parsed) >= _PARSED:
            del _parsed[next(iter(_parsed))]
        known = _parsed[file] = hash(text), ast.parse(text, file)
    return known[1]


def _functions(node: ast.AST, owner: str | None) -> Iterator[tuple[FunctionNode, str | None]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FunctionNode):
            yield child, owner
        yield from _functions(child, child.name if isinstance(child, ast.ClassDef) else owner)


def _is(node: FunctionNode, code: CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    return node.name == code.co_name and first == code.co_firstlineno


def _holds(node: FunctionNode, code: CodeType) -> bool:
    """Whether the places of the code's instructions are those of the node, told by columns."""
    if not isinstance(node, ast.Lambda):
        return True
    body = node.body
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    first, last = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    return bool(places) and all(first <= place <= last for place in places)
