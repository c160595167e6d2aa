"""The recorder is valid Python 2.7 and 3.5, and needs nothing but NumPy and paddle."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

SOURCE = (
    Path(__file__).resolve().parents[2] / "src" / "refluid" / "record" / "fluid_recorder.py"
).read_text(encoding="utf-8")
LATER = (
    *(ast.AnnAssign, ast.AsyncFor, ast.AsyncFunctionDef, ast.AsyncWith, ast.Await, ast.JoinedStr),
    *(ast.MatMult, ast.NamedExpr, ast.Nonlocal, ast.YieldFrom, ast.Match),
)
# Of the standard library, all in Python 2.7.
MODULES = {"__future__", "argparse", "json", "os", "runpy", "sys", "zlib", "numpy", "paddle"}


def objections(source: str) -> list[str]:
    """What Python 2.7 or 3.5 would not understand."""
    tree = ast.parse(source, feature_version=(3, 7))
    found = [f"{type(node).__name__}" for node in ast.walk(tree) if isinstance(node, LATER)]
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            given = [*node.args, *node.posonlyargs, *node.kwonlyargs, node.vararg, node.kwarg]
            found += ["annotation" for one in given if one is not None and one.annotation]
            found += ["keyword-only argument"] * bool(node.kwonlyargs or node.posonlyargs)
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            found.append("annotation")
        if isinstance(node, ast.Call):
            stars = [isinstance(one, ast.Starred) for one in node.args]
            found += ["argument after *arguments"] * any(stars[:-1])
            double = [one.arg is None for one in node.keywords]
            found += ["argument after **arguments"] * any(double[:-1])
        if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Assign):
            inner = node.targets if isinstance(node, ast.Assign) else node.elts
            found += ["*unpacking"] * any(isinstance(one, ast.Starred) for one in inner)
        if isinstance(node, ast.Dict):
            found += ["**unpacking"] * any(key is None for key in node.keys)
        if isinstance(node, ast.Raise) and node.cause is not None:
            found.append("raise from")
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "super" and not node.args:
            found.append("super()")
    return found + trailing(source)


def trailing(source: str) -> list[str]:
    """Commas after *arguments, and underscores in numbers."""
    kept = (tokenize.NL, tokenize.COMMENT, tokenize.NEWLINE)
    tokens = [
        one
        for one in tokenize.generate_tokens(io.StringIO(source).readline)
        if one.type not in kept
    ]
    found = [
        "underscore in a number"
        for one in tokens
        if one.type == tokenize.NUMBER and "_" in one.string
    ]
    for place in range(2, len(tokens) - 2):
        texts = [one.string for one in tokens[place - 2 : place + 3]]
        if texts[0] in "(," and texts[1] in ("*", "**") and texts[3:] == [",", ")"]:
            found.append("comma after *arguments")
    return found


def test_old_pythons_understand_the_recorder() -> None:
    assert not objections(SOURCE)
    ast.parse(SOURCE, feature_version=(3, 5))
    driver = pytest.importorskip("fissix.pgen2.driver")
    from fissix import pygram, pytree

    grammar = pygram.python_grammar_no_print_statement
    driver.Driver(grammar, convert=pytree.convert).parse_string(SOURCE)


@pytest.mark.parametrize(
    "line",
    [
        'f"{1}"',
        "x: int = 1",
        "def f(*, a): pass",
        "f(*a, **b,)",
        "f(*a, b)",
        "[*a]",
        "{**a}",
        "1_000",
        "def f() -> int: pass",
        "raise A from b",
        "super().f()",
    ],
)
def test_what_is_later_is_found(line: str) -> None:
    assert objections(line + "\n")


def test_nothing_else_is_imported() -> None:
    tree = ast.parse(SOURCE)
    names = {
        name.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
    } | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names == MODULES
    assert "%" in SOURCE and ".format(" not in SOURCE
