"""Cases that run always and those that are slow: none is lost, and nothing is left without one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.choices import crossed, often


def split(cases: list[Any]) -> tuple[list[Any], list[Any]]:
    """Those that run always, and the slow ones."""
    fast = [one.values for one in cases if not one.marks]
    return fast, [one.values for one in cases if one.marks]


def test_all_cases_stay_in_their_order() -> None:
    assert split(often("abc", {"b"})) == ([("b",)], [("a",), ("c",)])
    fast, slow = split(crossed([1, 2], "ab", fast=[(1, "b"), (2, "a")]))
    assert (fast, slow) == ([(1, "b"), (2, "a")], [(1, "a"), (2, "b")])


def test_there_is_nothing_to_choose_from_without_recordings() -> None:
    assert often([], []) == []


@pytest.mark.parametrize("fast", [[], ["d"], ["a", "d"]])
def test_what_never_runs_is_refused(fast: list[str]) -> None:
    with pytest.raises(AssertionError):
        often("abc", fast)


@pytest.mark.parametrize("fast", [[], [(1, "a")], [(1, "a"), (2, "a")], [(1, "a"), (3, "b")]])
def test_each_value_has_a_case(fast: list[tuple[Any, ...]]) -> None:
    with pytest.raises(AssertionError):
        crossed([1, 2], "ab", fast=fast)
