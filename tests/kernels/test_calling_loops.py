"""Loops that call loops: what is called becomes a part of each that calls it, and nothing else."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid.core import flags
from refluid.kernels import loop_text, machine_code

pytestmark = pytest.mark.skipif(not machine_code.linker(), reason="no linker, or not Linux")

_NESTED = """
from refluid.kernels.compiled import compiled

@compiled
def least(numbers, place):
    return min(numbers[place], numbers[place - 1])

@compiled
def middle(numbers, place, factor):
    if place == 0:
        return numbers[0] / factor
    return least(numbers, place) * factor

@compiled
def outer(numbers, found, factor):
    total = 0
    for place in range(len(numbers)):
        found[place] = middle(numbers, place, factor)
        total += found[place] > 0
    return total

@compiled
def other(numbers, found, factor):
    for place in range(1, len(numbers)):
        found[place] = least(numbers, place) + middle(numbers, place, factor)
    return found.size
"""


def _nested(numbers: Any, factor: float) -> dict[str, tuple[int, list[float]]]:
    middles = [numbers[0] / factor, *(np.minimum(numbers[1:], numbers[:-1]) * factor)]
    sums = [0.0, *(np.minimum(numbers[1:], numbers[:-1]) * (1 + factor))]
    return {"outer": (sum(one > 0 for one in middles), middles), "other": (len(numbers), sums)}


@pytest.mark.parametrize("kept", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("order", [("outer", "other"), ("other", "outer")])
def test_loops_share_what_they_call(
    folder: Path, kept: tuple[bool, bool], order: tuple[str, str]
) -> None:
    """Whether each of them is kept or compiled in this process."""
    names: dict[str, Any] = {"__name__": "loops"}
    exec(compile(_NESTED, "<nested>", "exec"), names)
    draws = np.random.default_rng(3)
    for name, keep in zip(order, kept, strict=True):
        with flags.override({"FLAGS_refluid_kept_loops": keep}):
            for dtype in ("float32", "float64"):
                for _ in range(5):
                    numbers = draws.standard_normal(int(draws.integers(1, 40))).astype(dtype)
                    found, factor = np.zeros_like(numbers), float(draws.uniform(1, 2))
                    told = int(names[name](numbers, found, factor))
                    wanted = _nested(numbers, factor)[name]
                    assert told == wanted[0]
                    np.testing.assert_allclose(found, wanted[1], rtol=1e-6)
        assert bool(list(folder.glob(f"{name}-*.so"))) is keep


def test_nothing_but_the_library_becomes_machine_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """numba would make an executable of each function, which takes most of its time."""
    codegen = importlib.import_module("numba.core.codegen")
    add, seen = codegen.JitEngine.add_module, list[str]()

    def noted(engine: Any, module: Any) -> Any:
        seen.extend(one.name for one in module.functions if not one.is_declaration)
        return add(engine, module)

    monkeypatch.setattr(codegen.JitEngine, "add_module", noted)
    names: dict[str, Any] = {"__name__": "loops"}
    exec(compile(_NESTED, "<nested>", "exec"), names)
    numbers = np.arange(6.0)
    assert names["outer"](numbers, np.zeros(6), 2.0) == 4
    assert not [one for one in seen if any(name in one for name in ("least", "middle", "outer"))]
    with flags.override({"FLAGS_refluid_kept_loops": False}):
        assert names["other"](numbers, np.zeros(6), 2.0) == 6
    assert any("other" in one for one in seen)  # that is where they would be seen


@pytest.mark.parametrize("missing", ["numba.core.codegen", "numba._dynfunc"])
def test_numba_without_these_parts_compiles_as_ever(
    missing: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop_text.as_text.cache_clear()
    with monkeypatch.context() as numba:
        numba.setitem(sys.modules, missing, None)
        assert "pipeline_class" not in loop_text.as_text()
        numba.undo()
        names: dict[str, Any] = {"__name__": "loops"}
        exec(compile(_NESTED, "<nested>", "exec"), names)
        assert names["outer"](np.arange(6.0), np.zeros(6), 2.0) == 4
    loop_text.as_text.cache_clear()
    assert "pipeline_class" in loop_text.as_text()
    assert list(folder.glob("outer-*.so"))
