"""Which files that Python 3 parses only ever ran under Python 2, by the names that they use."""

from __future__ import annotations

import ast
import codecs
import re
from collections import Counter

from refluid.porting.old_names import BUILTINS, RENAMED

_METHODS = frozenset({"iteritems", "itervalues", "iterkeys", "has_key"})
# Builtins that a file of both Pythons has nowhere. It may have `unicode` after an `or`, and
# `iteritems`, which `six` has too.
_RUN = frozenset({"xrange", "raw_input", "unichr", "reload", "execfile"})
# A file with one of these asks which Python it runs under, or is written for both.
_ASKS = r"\b(PY2|PY3|version_info|python_version)\b|\bsys\.version\b"
_BOTH = re.compile(rf"\b(six|future|past)\b|{_ASKS}")
_PRINT_OF_PYTHON3 = re.compile(rf"\bprint_function\b|{_ASKS}")

# `from __future__ import division`, alone or among others.
_DIVISION = re.compile(r"^\s*from\s+__future__\s+import\b[^#\n]*\bdivision\b", re.MULTILINE)


def divides_as_python3(source: str) -> bool:
    """Whether a file of Python 2 asks for Python 3's division."""
    return _DIVISION.search(source) is not None


def print_statement(tree: ast.Module, source: str, bound: set[str]) -> int:
    """The line of `print >> file, ..`, which Python 3 reads as a tuple; 0 where there is none.

    bound: what the file gives a meaning of its own.
    """
    if ">>" not in source or "print" in bound or _PRINT_OF_PYTHON3.search(source):
        return 0
    for node in ast.walk(tree):
        match node:
            case ast.Expr(
                value=ast.BinOp(left=ast.Name(id="print"), op=ast.RShift())
                | ast.Tuple(elts=[ast.BinOp(left=ast.Name(id="print"), op=ast.RShift()), *_])
            ):
                return node.lineno
    return 0


def asks_which_python(source: str) -> bool:
    """Whether a file asks which Python it runs under, or imports what is meant for both."""
    return _BOTH.search(source) is not None


def python2_names(tree: ast.Module, source: str, bound: set[str]) -> list[str]:
    """Names that Python 3 has not and the file uses in any case; none: it is Python 3.

    bound: what the file gives a meaning of its own. What is merely tried does not count, nor in a
    file that asks which Python it runs under what a function or an `if` that asks has.
    """
    asks = asks_which_python(source)
    if asks and _may_bind_all(tree):
        return []
    encodings = _encodings(tree) if ".encode(" in source else set()
    lines = source.splitlines() if asks else []
    found: dict[str, None] = {}
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        for name in [*_names(node, bound), *_joined(node, encodings)]:
            if not asks or name in _RUN or node in tree.body:
                found[name] = None
        if not (isinstance(node, ast.Try) or (asks and _chooses(node, lines))):
            waiting.extend(ast.iter_child_nodes(node))
    return sorted(found)


def _may_bind_all(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree)
    )


def _chooses(node: ast.AST, lines: list[str]) -> bool:
    """Whether what is in this function, or under this condition, may be for one Python only."""
    if not isinstance(node, ast.FunctionDef | ast.If | ast.IfExp):
        return False
    return any(map(asks_which_python, lines[node.lineno - 1 : node.end_lineno]))


def _names(node: ast.AST, bound: set[str]) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id] if node.id in BUILTINS and node.id not in bound else []
    if isinstance(node, ast.Attribute):
        return [f".{node.attr}"] if node.attr in _METHODS else []
    if isinstance(node, ast.Import):
        return [one.name for one in node.names if one.name in RENAMED]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module] if node.module in RENAMED else []
    return []


def _is_encoding(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(codecs.lookup(value))
    except LookupError:
        return False


def _encodings(tree: ast.Module) -> set[str]:
    """Parameters whose default is the name of an encoding."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.args.defaults:
            given = zip(reversed(node.args.args), reversed(node.args.defaults), strict=False)
            found |= {
                one.arg for one, value in given if _is_encoding(getattr(value, "value", None))
            }
    return found


def _joined(node: ast.AST, encodings: set[str]) -> list[str]:
    """`x.encode("utf-8") + "text"`: bytes and text, which Python 3 never adds."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
        return []
    sides = [node.left, node.right]
    texts = [one for one in sides if isinstance(getattr(one, "value", None), str)]
    coded = [one for one in sides if _is_encoded(one, encodings)]
    return ["encode() + text"] if texts and coded else []


def _is_encoded(node: ast.expr, encodings: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="encode"), args=[ast.Constant(value=name)]):
            return _is_encoding(name)
        case ast.Call(func=ast.Attribute(attr="encode"), args=[ast.Name(id=name)]):
            return name in encodings
    return False


# What made lists in Python 2, and gives what can be walked over once, or viewed.
_LISTED, _VIEWED = frozenset({"map", "filter", "zip"}), frozenset({"keys", "values", "items"})
MAY_NEED_LISTS = re.compile(r"\b(map|filter|zip)\(|\.(keys|values|items)\(\)\[")
MAY_JOIN_CODED = re.compile(r"\.encode\(.*\+|\+.*\.encode\(")
_Scope = ast.Module | ast.FunctionDef


def needs_lists(tree: ast.Module, bound: set[str]) -> bool:
    """Whether a place or the length is asked of what is a list in Python 2 only: `map(f, a)[0]`.

    bound: what the file gives a meaning of its own.
    """
    return any(
        _needs_lists(node, _LISTED - bound) for node in ast.walk(tree) if isinstance(node, _Scope)
    )


def _needs_lists(scope: _Scope, made: frozenset[str]) -> bool:
    """Whether it is so of a call, or of a name that the function gives nothing else to."""
    lists: Counter[str] = Counter()
    given: Counter[str] = Counter()
    for node in ast.walk(scope):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _makes(value, made):
                lists[name] += 1
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                given[name] += 1
    names = {name for name, count in lists.items() if count == given[name]}
    return any(_asks_of_list(node, names, made) for node in ast.walk(scope))


def _makes(value: ast.expr, made: frozenset[str]) -> bool:
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in made
    )


def _asks_of_list(node: ast.AST, names: set[str], made: frozenset[str]) -> bool:
    match node:
        case (
            ast.Subscript(value=ast.Name(id=name))
            | ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)])
        ):
            return name in names
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr=name), args=[])):
            return name in _VIEWED
        case ast.Subscript(value=value) | ast.Call(func=ast.Name(id="len"), args=[value]):
            return _makes(value, made)
    return False
