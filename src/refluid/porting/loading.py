"""Imports the user's own modules as old scripts need them; everything else as ever."""

from __future__ import annotations

import ast
import functools
import importlib.util
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from runpy import run_path
from types import CodeType, ModuleType
from typing import Any

from refluid.core.own_frames import is_library
from refluid.porting import absent
from refluid.porting.dialect import (
    MAY_JOIN_CODED,
    MAY_NEED_LISTS,
    asks_which_python,
    divides_as_python3,
    needs_lists,
    print_statement,
    python2_names,
)
from refluid.porting.rewriting import bound_names, may_need, rewrite

_LOGGER = logging.getLogger("refluid")
_MAY_BE_OLD = MAY_NEED_LISTS, MAY_JOIN_CODED
# Installed packages that scripts of Fluid's time build on, whose releases that these use are older
# than what NumPy removed: old as the scripts themselves.
OLD_LIBRARIES = frozenset(
    {"ddparser", "gym", "imgaug", "paddle_fl", "paddlehub", "paddlepalm", "paddlerec"}
    | {"paddleslim", "paddlex", "parl", "pgl", "plsc", "propeller", "visualdl"}
)
_show_translation = False


def compile_old(data: bytes, file: str, package: str = "") -> CodeType | None:
    """The code of a file that needs help; None for one that is compiled as it is.

    package: that the file lies in, if any. Raises SyntaxError where it is neither Python 3 nor 2.
    """
    source = importlib.util.decode_source(data)
    try:
        tree = _python3(source, file)
    except SyntaxError as error:
        tree = _python2(source, file, error, package)
        changed = True
    else:
        wants = may_need(source) or any(one.search(source) for one in _MAY_BE_OLD)
        changed = wants and _rewritten(tree, source, file)
    if package and _finds_beside(tree, file):
        changed = True
    return _compile(tree, file) if changed else None


def _rewritten(tree: ast.Module, source: str, file: str) -> bool:
    bound = set(bound_names(tree))
    names = python2_names(tree, source, bound)
    lists = bool(names) or needs_lists(tree, bound)
    # A file that knows of both divides as it says: what it has for Python 2 may be a leftover.
    divides = bool(names) and not (divides_as_python3(source) or asks_which_python(source))
    if names:
        _say_python2(file, f"uses {', '.join(names[:3])} of Python 2 and runs as there", divides)
    return rewrite(tree, file, lists=lists, files=bool(names), divides=divides)


def _finds_beside(tree: ast.Module, file: str) -> bool:
    """Whether the file imports modules of its package by bare names; these are found, then."""
    from refluid.porting import siblings

    return siblings.rewrite(tree, file)


def _compile_generated(data: bytes, file: str) -> CodeType | None:
    if not file.endswith("_pb2.py"):
        return None
    from refluid.porting.old_protobuf import compile_generated

    return compile_generated(importlib.util.decode_source(data), file)


def parsed_old(data: bytes, file: str) -> tuple[ast.Module, int | None]:
    """A file's tree, and where it was translated the first line that isn't Python 3.

    Raises SyntaxError where it is neither Python 3 nor 2.
    """
    source = importlib.util.decode_source(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes that are none: the script's affair
        try:
            return _python3(source, file), None
        except SyntaxError as error:
            tree, _ = _translated(source, file, error)
            return tree, error.lineno or 1


def _translated(
    source: str, file: str, error: SyntaxError, package: str = ""
) -> tuple[ast.Module, str]:
    from refluid.porting import translation

    text = translation.translate(source, file, in_package=bool(package))
    if text is None:
        raise error
    tree = _parsed(text, file)
    translation.keep_lines(tree, source, text)
    return tree, text


def _python2(source: str, file: str, error: SyntaxError, package: str) -> ast.Module:
    tree, text = _translated(source, file, error, package)
    divides = not divides_as_python3(source)
    _say_python2(file, "is Python 2 and runs translated", divides, "refluid run --show-translation")
    if _show_translation:
        from refluid.porting import translation

        sys.stderr.write(f"{translation.difference(source, text, file)}\n")
    rewrite(tree, file, files=True, divides=divides)
    return tree


def _say_python2(file: str, says: str, divides: bool, more: str = "") -> None:
    _LOGGER.warning(
        "%s %s%s%s",
        file,
        says,
        "; a / b of whole numbers rounds down in it" if divides else "",
        f" ({more})" if more else "",
    )


def _parsed(source: str, file: str) -> ast.Module:
    tree = compile(source, file, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, ast.Module)
    return tree


def _python3(source: str, file: str) -> ast.Module:
    """The file's tree; SyntaxError also for what Python 3 reads and only Python 2 means."""
    tree = _parsed(source, file)
    line = print_statement(tree, source, set(bound_names(tree))) if _can_translate() else 0
    if line:
        raise SyntaxError("print >> file is a statement of Python 2", (file, line, 1, None))
    return tree


@functools.cache
def _can_translate() -> bool:
    return importlib.util.find_spec("fissix") is not None


def _compile(tree: ast.Module, file: str) -> CodeType:
    code: CodeType = compile(tree, file, "exec", dont_inherit=True)
    return code


class OldLoader(SourceFileLoader):
    """Loads a user's module; Python's cache is only used for one that is compiled as it is."""

    def get_code(self, fullname: str) -> CodeType | None:
        data = self.get_data(self.path)
        package = fullname if self.is_package(fullname) else fullname.rpartition(".")[0]
        code = _compile_generated(data, self.path) or compile_old(data, self.path, package)
        return super().get_code(fullname) if code is None else code


@functools.cache
def _is_target(folder: str) -> bool:
    """Whether packages were installed into this folder, as `pip install --target` does."""
    return bool(folder) and next(Path(folder).glob("*.dist-info"), None) is not None


def _is_installed(place: str) -> bool:
    return any(
        _is_target(one) and (place == one or place.startswith(f"{one}{os.sep}")) for one in sys.path
    )


class OldFinder(MetaPathFinder):
    """Finds the user's modules: those in folders that aren't a library's, and old libraries."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in sys.builtin_module_names:
            return None
        old = fullname.partition(".")[0] in OLD_LIBRARIES
        places = sys.path if path is None else path
        folders = [one for one in places if old or not (is_library(one) or _is_installed(one))]
        spec = PathFinder.find_spec(fullname, folders, target) if folders else None
        if spec is None or type(spec.loader) is not SourceFileLoader:
            return None
        spec.loader = OldLoader(spec.loader.name, spec.loader.path)
        return spec


def install(*, show_translation: bool = False) -> None:
    """Has the user's modules imported so from now on, after the finders that are there first."""
    global _show_translation
    _show_translation = show_translation
    if not any(isinstance(finder, OldFinder) for finder in sys.meta_path):
        place = next(n for n, one in enumerate(sys.meta_path) if one is PathFinder)
        sys.meta_path.insert(place, OldFinder())
    absent.install()


def run_file(script: str, name: str = "__main__") -> dict[str, Any]:
    """Runs a file under a module's name, as `runpy.run_path` does; what it defines."""
    path = Path(script)
    code = compile_old(path.read_bytes(), script) if path.suffix == ".py" else None
    if code is None:
        return run_path(script, run_name=name)
    module: Any = ModuleType(name)
    module.__file__, module.__cached__, module.__builtins__ = script, None, __builtins__
    before, sys.modules[name] = sys.modules.get(name), module
    try:
        exec(code, module.__dict__)
    finally:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
    return dict(module.__dict__)
