"""What stands in the way of one file: found in its syntax tree, without running it."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from refluid.porting.absent import ABSENT
from refluid.porting.loading import parsed_old
from refluid.porting.old_names import BUILTINS, METHODS, MODULES, RENAMED
from refluid.porting.resolving import missing_part, unknown_argument


class FindingKind(StrEnum):
    """What was found, and so what follows for a script that uses the file."""

    UNREADABLE = "unreadable"
    MISSING = "missing"
    OPERATORS = "custom operator"
    PACKAGE = "package"
    CUDA = "cuda"
    PYTHON2 = "python 2"
    OLD = "old name"


@dataclass(frozen=True, order=True)
class Finding:
    """One of them."""

    file: str
    line: int
    kind: FindingKind
    what: str
    # Whether importing the file is enough to meet it; else a function has to be called.
    always: bool = True


@dataclass
class Scanned:
    """A file: what was found, the modules that it imports, and whether it is run as a script."""

    findings: list[Finding]
    imports: set[str]
    is_script: bool
    uses_paddle: bool
    # Folders that it adds to sys.path, as it spells them.
    paths: tuple[str, ...] = ()
    # Modules that only calls of its functions import.
    later: frozenset[str] = frozenset()


def scan_file(path: Path, name: str) -> Scanned:
    """Reads one file. name: what findings call it."""
    try:
        tree, python2_line = parsed_old(path.read_bytes(), str(path))
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None) or 1
        said = getattr(error, "msg", None) or str(error)
        return Scanned([Finding(name, line, FindingKind.UNREADABLE, said)], set(), False, False)
    reader = _Reader(name)
    reader.visit(tree)
    if python2_line is not None:
        reader.add(
            python2_line, FindingKind.PYTHON2, "syntax of Python 2: translated by refluid run"
        )
    reader.check_builtins()
    uses = any(value.startswith("paddle") for value in reader.aliases.values())
    found = sorted(set(reader.findings))
    later = frozenset(reader.later - reader.imports)
    return Scanned(found, reader.imports, _is_script(tree), uses, tuple(reader.paths), later)


def _is_script(tree: ast.Module) -> bool:
    """Whether it asks if it is the main module, or has a loop outside of all functions."""
    return any(
        isinstance(node, ast.For | ast.While)
        or (isinstance(node, ast.If) and any(one.id == "__name__" for one in _names(node.test)))
        for node in tree.body
    )


class _Reader(ast.NodeVisitor):
    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self.imports: set[str] = set()
        self.later: set[str] = set()
        # Names of the file, and what module or name of a library each stands for.
        self.aliases: dict[str, str] = {}
        self.paths: list[str] = []
        self._tries = self._functions = 0
        # Names that the file gives a meaning of its own, and where it reads Python 2's builtins.
        self._bound: set[str] = set()
        self._builtins: list[tuple[str, int]] = []

    def add(self, line: int, kind: FindingKind, what: str) -> None:
        always = not self._functions and what not in ABSENT
        self.findings.append(Finding(self.file, line, kind, what, always))

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._bound.add(node.id)
        elif node.id in BUILTINS:
            self._builtins.append((node.id, node.lineno))

    def visit_arg(self, node: ast.arg) -> None:
        self._bound.add(node.arg)
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._bound.add(node.name)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Has no parts to look at."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._bound.add(node.name)
        self._functions += 1
        self.generic_visit(node)
        self._functions -= 1

    def visit_Import(self, node: ast.Import) -> None:
        for one in node.names:
            self._note_import(one.name, node.lineno)
            known = one.name if one.asname else one.name.partition(".")[0]
            self.aliases[one.asname or known] = known
            if one.name in RENAMED:
                self.add(node.lineno, FindingKind.OLD, f"module {one.name}")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        self._note_import(module, node.lineno)
        for one in node.names:
            full = f"{module}.{one.name}" if node.module else f"{module}{one.name}"
            self._add_import(full)
            if one.name == "*":
                continue
            self.aliases[one.asname or one.name] = full
            if module.split(".")[0] == "paddle":
                self._check(full, node.lineno)
            elif one.name in MODULES.get(module, {}) or module in RENAMED:
                self.add(node.lineno, FindingKind.OLD, full)

    def _add_import(self, module: str) -> None:
        (self.later if self._functions else self.imports).add(module)

    def _note_import(self, module: str, line: int) -> None:
        self._add_import(module)
        root = module.partition(".")[0]
        if root == "paddle":
            self._check(module, line)
        elif root and not self._tries and not module.startswith(".") and not _there(root):
            self.add(line, FindingKind.PACKAGE, root)

    def _check(self, name: str, line: int) -> None:
        lacking = missing_part(name)
        if lacking is not None:
            self.add(line, FindingKind.MISSING, lacking)

    def visit_Try(self, node: ast.Try) -> None:
        """What is tried may be missing."""
        types = [handler.type or ast.Name("all") for handler in node.handlers]
        caught = {one.id for kind in types for one in _names(kind)}
        may_fail = caught & {"all", "ImportError", "ModuleNotFoundError", "Exception"}
        self._tries += bool(may_fail)
        for tried in node.body:
            self.visit(tried)
        self._tries -= bool(may_fail)
        for one in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(one)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        full = self._full(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                if full is not None and isinstance(node.value, ast.Attribute):
                    self.aliases.setdefault(target.id, full)
                else:
                    self.aliases.pop(target.id, None)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        full = self._full(node)
        if full is None:
            if node.attr in METHODS and node.attr not in ("next", "message", "decode"):
                self.add(node.lineno, FindingKind.OLD, f".{node.attr}")
            self.generic_visit(node)
            return
        root, _, rest = full.partition(".")
        if root == "paddle":
            self._check(full, node.lineno)
            self._check_device(full, node.lineno)
        elif rest in MODULES.get(root, {}) and rest not in vars(importlib.import_module(root)):
            self.add(node.lineno, FindingKind.OLD, full)

    def _check_device(self, full: str, line: int) -> None:
        last = full.rpartition(".")[2]
        if last in ("CUDAPlace", "cuda_places", "CUDAPinnedPlace", "cuda_pinned_places"):
            self.add(line, FindingKind.CUDA, last)
        elif last == "load_op_library":
            self.add(line, FindingKind.OPERATORS, "load_op_library")

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        called = self._full(node.func) or ""
        if called in ("sys.path.append", "sys.path.insert") and node.args:
            given_path = node.args[-1]
            if isinstance(given_path, ast.Constant) and isinstance(given_path.value, str):
                self.paths.append(given_path.value)
        for one in node.keywords:
            if one.arg and _is_refused(called, one.arg):
                self.add(node.lineno, FindingKind.MISSING, f"{called}({one.arg}=)")
            given = isinstance(one.value, ast.Constant) and one.value.value is True
            if one.arg in ("use_cuda", "use_gpu") and given:
                self.add(node.lineno, FindingKind.CUDA, f"{one.arg}=True")

    def _full(self, node: ast.expr) -> str | None:
        """The dotted name of an expression, by what its first name was imported as."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self._full(node.value)
            return None if base is None else f"{base}.{node.attr}"
        return None

    def check_builtins(self) -> None:
        """Notes the builtins of Python 2 that the file doesn't define itself."""
        own = self._bound | set(self.aliases)
        for name, line in self._builtins:
            if name not in own:
                self.add(line, FindingKind.OLD, name)


def _is_refused(called: str, keyword: str) -> bool:
    """Whether a function of Fluid's that is there doesn't take an argument."""
    is_there = called.startswith("paddle.") and missing_part(called) is None
    return is_there and unknown_argument(called, keyword)


def _names(tree: ast.AST) -> Iterator[ast.Name]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Name))


def _there(root: str) -> bool:
    if root in RENAMED:
        return True
    try:
        return importlib.util.find_spec(root) is not None
    except (ImportError, ValueError):
        return False
