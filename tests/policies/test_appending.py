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
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py")}
    return {
        path.relative_to(SOURCES).as_posix()
        for path, text in texts.items()
        if any(method in text for method in METHODS)
        and any(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in METHODS
            for node in ast.walk(ast.parse(text))
        )
    }


def test_operators_are_appended_by_build() -> None:
    found = {name for name in appending() if not name.startswith("build/")}
    assert not found - STILL, "use refluid.build.op or apply"
    assert not STILL - found, "no longer needed: take it from the list"


# Layers whose results `op` can't make, and why. This list may only shrink.
BY_HAND = {
    "fluid/functions/control/dynamic_rnn.py": "a condition that a loop writes",
    "fluid/functions/metric/accuracy.py": "results are numbered in another order than operators",
    "fluid/functions/loss/sampled.py": "a result is numbered among those of another operator",
    "fluid/functions/rnn/recurrent.py": "Fluid numbers a variable that it doesn't use",
    "fluid/functions/tensor/creation.py": "whether it stops gradients is said before the operator",
    "fluid/functions/tensor/padding.py": "the result is numbered before the constants",
    "fluid/functions/tensor/random.py": "the result may have a name of its own",
    "fluid/functions/tensor/tensor_lists.py": "constants are numbered as another layer's",
}


def test_results_are_made_by_build() -> None:
    maker = "create_variable_for_type_inference"
    found = {
        path.relative_to(SOURCES).as_posix()
        for path in (SOURCES / "fluid").rglob("*.py")
        if maker in path.read_text(encoding="utf-8")
    } - {"fluid/layer_helper_base.py"}
    assert not found - BY_HAND.keys(), "give refluid.build.op the types of the results"
    assert not BY_HAND.keys() - found, "no longer needed: take it from the list"
