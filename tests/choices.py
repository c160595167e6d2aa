"""Which cases of a test run always, and which with the slow ones only."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from typing import Any

import pytest


def often(cases: Iterable[Any], fast: Collection[Any]) -> list[Any]:
    """The cases of a test, marked slow but for those of `fast`."""
    all_of_them = list(cases)
    assert all(one in all_of_them for one in fast), "no such case"
    assert fast or not all_of_them, "none that runs always"
    return [pytest.param(one, marks=[] if one in fast else pytest.mark.slow) for one in all_of_them]


def crossed(*values: Iterable[Any], fast: Collection[tuple[Any, ...]]) -> list[Any]:
    """Each value with each of the other kinds; slow but for `fast`, in which each value occurs."""
    kinds = [list(one) for one in values]
    for place, kind in enumerate(kinds):
        seen = [one[place] for one in fast]
        assert all(one in seen for one in kind) and all(one in kind for one in seen), kind
    return [
        pytest.param(*case, marks=[] if case in fast else pytest.mark.slow)
        for case in itertools.product(*kinds)
    ]
