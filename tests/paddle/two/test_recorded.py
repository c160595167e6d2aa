"""Calls of Paddle 2's functions give what Paddle 2.6.2 gave: results, gradients, types, shapes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.paddle.two import calls
from tests.paddle.two.cases import Call

FOLDER = Path(__file__).parent
# Cases in which refluid differs on purpose.
DIFFERENT = {
    "nn.functional.binary_cross_entropy_with_logits#1": "Paddle's pos_weight is that of a part of "
    "the loss of ones, and its gradient that of another loss",
    "gather#1": "Paddle's gradient has the same numbers in all rows when the axis is not the first",
}


def _cases() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*_cases.py")):
        recorded = np.load(FOLDER / "recorded" / f"{path.stem}.npz")
        values: dict[str, dict[str, Any]] = {}
        for key in recorded.files:
            name, _, part = key.rpartition("/")
            values.setdefault(name, {})[part] = recorded[key]
        for name, call in importlib.import_module(f"tests.paddle.two.{path.stem}").CASES.items():
            if name in values and name not in DIFFERENT:
                yield pytest.param(name, call, values[name], id=name)


CASES = [*_cases()]


def _same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for part, expected in wanted.items():
        if part not in found and part.startswith("grad") and not expected.any():
            continue  # a gradient of zeros may be none
        value = np.asarray(found[part])
        shape = expected.shape or (1,)  # one element has a dimension here, as in Paddle 2.0 to 2.4
        assert value.shape == shape, part
        if part.startswith("out"):
            assert value.dtype == expected.dtype, part
        np.testing.assert_allclose(
            value, expected.reshape(shape), rtol=2e-5, atol=2e-6, err_msg=part
        )


@pytest.mark.parametrize(("name", "call", "wanted"), CASES)
def test_at_once(name: str, call: Call, wanted: dict[str, Any]) -> None:
    _same(calls.at_once(name, call), wanted)


def _first_of_each(cases: list[Any]) -> list[Any]:
    """The cases of which all but the first of each function are slow."""
    found, seen = [], set()
    for one in cases:
        function = str(one.id).partition("#")[0]
        marks = [pytest.mark.slow] if function in seen else []
        seen.add(function)
        found.append(pytest.param(*one.values, id=one.id, marks=marks))
    return found


@pytest.mark.parametrize(("name", "call", "wanted"), _first_of_each(CASES))
def test_in_programs(name: str, call: Call, wanted: dict[str, Any]) -> None:
    found = calls.in_program(name, call)
    parts = {part: one for part, one in wanted.items() if part.startswith("out") or part in found}
    _same(found, parts)
