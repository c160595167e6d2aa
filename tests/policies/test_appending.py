"""Operators are appended by `refluid.build` alone; `append_op` is for scripts of users."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src" / "refluid"
METHODS = {"append_op", "prepend_op", "insert_op", "_prepend_op", "_insert_op"}
# This list may only shrink.
STILL = {
    "autodiff/recompute.py",
    "fluid/layer_helper.py",  # Fluid's `LayerHelper.append_op`
    "ir/block.py",  # where they are defined
    "passes/data_parallel.py",
    "passes/gradient_merge.py",
}


def appending() -> set[str]:
    """The files, by their paths in the package, that call one of the methods."""
    return {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if any(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in METHODS
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        )
    }


def test_operators_are_appended_by_build() -> None:
    found = {name for name in appending() if not name.startswith("build/")}
    assert not found - STILL, "use refluid.build.op or apply"
    assert not STILL - found, "no longer needed: take it from the list"
