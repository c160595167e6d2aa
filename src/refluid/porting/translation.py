"""Python 2 to Python 3, by fissix, in memory."""

from __future__ import annotations

import ast
import difflib
import functools
import re
import sys
from typing import Any

_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
# Left to `given_back`, which asks what there is first.
_NOT_TRANSLATED = ("fix_imports", "fix_imports2", "fix_urllib", "fix_itertools_imports")


class NoTranslator(SyntaxError):
    """A file is Python 2, and the package that translates it isn't installed."""


def translate(source: str, file: str, *, in_package: bool = False) -> str | None:
    """The text in Python 3; None where it isn't Python 2 either.

    in_package: whether what lies beside the file is found before what `sys.path` has. A script's
    folder is on the path, and a script is part of no package, also beside an `__init__.py`.
    """
    try:
        from fissix.pgen2.parse import ParseError
        from fissix.pgen2.tokenize import TokenError
    except ModuleNotFoundError:
        raise NoTranslator(
            f"{file} is not written in Python 3, and what translates Python 2 is not installed: "
            'pip install "refluid[compat]"'
        ) from None
    source = _INDENT.sub(lambda found: found[0].expandtabs(8), source)
    if not source.endswith("\n"):
        source += "\n"
    for print_function in (False, True):
        try:
            tree = _translator(print_function, in_package).refactor_string(source, file)
        except (ParseError, TokenError, IndentationError):
            continue
        text = str(tree)
        try:
            ast.parse(text, file)
        except SyntaxError:
            continue
        return text
    return None


@functools.cache
def _translator(print_function: bool, in_package: bool) -> Any:
    from fissix.refactor import RefactoringTool, get_fixers_from_package

    # Deeply nested expressions are walked by recursion.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))
    without = _NOT_TRANSLATED if in_package else (*_NOT_TRANSLATED, "fix_import")
    fixers = [
        one
        for one in get_fixers_from_package("fissix.fixes")
        if one.rpartition(".")[2] not in without
    ]
    return RefactoringTool(fixers, {"print_function": print_function})


def difference(source: str, text: str, file: str) -> str:
    """What was translated, as a unified diff."""
    lines = difflib.unified_diff(
        source.splitlines(), text.splitlines(), file, f"{file} (Python 3)", lineterm="", n=1
    )
    return "\n".join(lines)


def keep_lines(tree: ast.AST, source: str, text: str) -> None:
    """Gives the nodes of the translated text the lines of the original."""
    old, new = source.splitlines(), text.splitlines()
    if len(old) == len(new):
        return
    line_of: dict[int, int] = {}
    for _, start, end, new_start, new_end in difflib.SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        for place in range(new_start, new_end):
            within = min(start + place - new_start, max(end - 1, start))
            line_of[place + 1] = min(within, len(old) - 1) + 1
    for node in ast.walk(tree):
        for field in ("lineno", "end_lineno"):
            line = getattr(node, field, None)
            if line is not None:
                setattr(node, field, line_of.get(line, line))
        if getattr(node, "lineno", 0) > getattr(node, "end_lineno", 0):
            node.end_lineno = node.lineno  # type: ignore[attr-defined]
