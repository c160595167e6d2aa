"""The judge of runs sees what differs, and only that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.fuzzing.judging import Spread, beyond_rounding, differences, same_bits, widen
from tests.fuzzing.running import Trace

NAN, OTHER_NAN = np.array([0x7FC00000, 0x7FC00001], "uint32").view("float32")


def _array(*values: float) -> Any:
    return np.array(values, "float32")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (_array(1, 2), _array(1, 2), True),
        (_array(1, 2), _array(1, np.nextafter(np.float32(2), np.float32(3))), False),
        (_array(0.0), _array(-0.0), False),
        (_array(NAN, 1), _array(OTHER_NAN, 1), True),
        (_array(NAN, 1), _array(NAN, 2), False),
        (_array(1), _array(1).astype("float64"), False),
        (_array(1), _array(1).reshape(1, 1), False),
        (_array(1)[:0], _array(1)[:0], True),
    ],
)
def test_same_bits(one: Any, other: Any, same: bool) -> None:
    assert same_bits(one, other) == same


def _trace(*values: Any, state: dict[str, Any] | None = None) -> Trace:
    return Trace([one if isinstance(one, str) else [[(one, [])]] for one in values], state or {})


def test_differences_of_steps_and_of_what_is_left() -> None:
    right = _trace(_array(1), "EnforceNotMet mul", _array(2), state={"w": _array(3)})
    wrong = _trace(_array(1.5), "ValueError", "EnforceNotMet mul", state={"w": _array(4)})
    found = list(differences(right, wrong))
    assert [one.partition(":")[0] for one in found] == [
        "step 0, fetch 0",
        "step 1",
        "step 2",
        "w in the end",
    ]
    assert not list(differences(right, right))


def test_a_variable_that_is_gone_is_a_difference() -> None:
    assert list(differences(_trace(state={"w": _array(1)}), _trace())) == [
        "w is missing in the end"
    ]


def test_rounding_is_bounded_by_what_nudges_do() -> None:
    right, near, far = (_trace(_array(100, one)) for one in (1.0, 1.0005, 1.1))
    spread: Spread = {}
    assert not list(beyond_rounding(right, near, spread))
    assert list(beyond_rounding(right, far, spread))
    widen(spread, right, _trace(_array(100, 1.01)))
    assert not list(beyond_rounding(right, far, spread))
    assert list(beyond_rounding(right, _trace(_array(100, 3.0)), spread))


def test_numbers_that_are_not_finite_in_one_run_only_are_a_difference() -> None:
    right, wrong = _trace(_array(1, np.inf)), _trace(_array(np.nan, np.inf))
    assert list(beyond_rounding(right, wrong, {}))
    assert not list(beyond_rounding(wrong, wrong, {}))


def test_what_overflows_is_not_compared_up_to_rounding() -> None:
    inf = float("inf")
    right, other = (
        _trace(_array(1), _array(inf), _array(2)),
        _trace(_array(1), _array(2e37), _array(3)),
    )
    assert not list(beyond_rounding(right, other, {}))
    assert list(differences(right, other))
    before = _trace(_array(1.5), _array(inf), _array(2))
    assert [one.partition(":")[0] for one in beyond_rounding(right, before, {})] == [
        "step 0, fetch 0"
    ]
    assert list(beyond_rounding(_trace(_array(inf)), _trace(_array(1)), {}))
    assert not list(beyond_rounding(_trace(_array(NAN, 1)), _trace(_array(0, 1)), {}))
    assert list(beyond_rounding(_trace(_array(0, 1)), _trace(_array(NAN, 1)), {}))
