"""Translated functions do what they did before, where no tensor decides."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from refluid.fluid.dygraph.translation.asked import ControlAnswers
from refluid.translate import Untranslatable, translated

ASKED = ControlAnswers()


def of(function: Any) -> Callable[..., Any]:
    """The translated function."""
    return translated(function, ASKED).function


def loops(n: int, k: int = 3) -> Any:
    total, seen = 0, []
    for i in range(n):
        if i == 2:
            continue
        if i > k:
            break
        j = 0
        while True:
            j += 1
            if j > i and 0 <= j < 100:
                break
            if j > 50:
                return -1
        seen.append(j)
        total += j
    else:
        total += 1000
    for _one in seen:
        pass
    else:
        total += 7
    return (total, seen) if n != 7 else None


def returns(x: int) -> Any:
    if x > 3:
        return "a"
    if x > 2:
        y = 5
    else:
        if x < 0:
            return "negative"
        y = 6
    for q in [1, 2, 3]:
        if q * y == 10:
            return "found", q
    return y


def tries(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for one in values:
        try:
            if one is None:
                continue
            found.append(1 / one)
        except ZeroDivisionError as error:
            if len(found) > 2:
                return [*found, "end"]
            found.append(str(error))
        else:
            found.append("fine")
        finally:
            found.append("done")
        with pytest.MonkeyPatch.context():
            if one == 4:
                break
    return found


def matches(value: Any) -> Any:
    match value:
        case [first, *rest] if first:
            return first, rest
        case {"x": x}:
            found = x
        case _:
            found = None
    del value
    return found


@pytest.mark.parametrize("n", range(9))
def test_loops(n: int) -> None:
    assert of(loops)(n) == loops(n)
    assert of(loops)(n, k=1) == loops(n, k=1)


@pytest.mark.parametrize("x", range(-2, 6))
def test_returns(x: int) -> None:
    assert of(returns)(x) == returns(x)


@pytest.mark.parametrize("values", [[1, 0, 2], [None, 0, 0, 0, 0], [2, 4, 8], []])
def test_exceptions(values: list[Any]) -> None:
    assert of(tries)(values) == tries(values)


@pytest.mark.parametrize("value", [[1, 2, 3], [0, 1], {"x": 3}, 7])
def test_patterns(value: Any) -> None:
    assert of(matches)(value) == matches(value)


class _Base:
    def step(self, x: int) -> int:
        return x + 1


class _Derived(_Base):
    def __init__(self) -> None:
        self.__hidden = 40

    def step(self, x: int, *, by: int = 2) -> int:
        if x > 0:
            self.last = super().step(x) * by
        else:
            self.last = self.__hidden
        return self.last


def test_methods_find_their_class() -> None:
    one = _Derived()
    for x in (-1, 4):
        assert of(_Derived.step)(one, x) == one.step(x) == one.last
    assert of(_Derived.step)(one, 4, by=5) == 25


def test_closures_are_shared() -> None:
    count = 0

    def add(n: int) -> int:
        nonlocal count
        for _ in range(n):
            if n < 100:
                count += 1
        return count

    changed = of(add)
    assert (changed(2), add(3), changed(1)) == (2, 5, 6)


def test_lambdas() -> None:
    one, other = (lambda x: x if x > 0 else -x), (lambda x: x and x + 1)
    assert [of(one)(-3), of(other)(2), of(other)(0)] == [3, 3, 0]


def fails(x: int) -> int:
    if x > 1:
        return 10 // (x - 2)  # this line
    return 0


def test_errors_point_at_the_line_of_the_source() -> None:
    with pytest.raises(ZeroDivisionError) as error:
        of(fails)(2)
    last = traceback.extract_tb(error.tb)[-1]
    assert last.filename == __file__
    assert last.line == "return 10 // (x - 2)  # this line"


def test_what_cannot_be_translated_says_why_and_where() -> None:
    def generator(x: int) -> Any:
        if x:
            yield x

    with pytest.raises(Untranslatable, match=r"test_translated.py:\d+: a generator .*\n *yield x"):
        of(generator)
    namespace: dict[str, Any] = {}
    exec("def f(x): return x", namespace)
    with pytest.raises(Untranslatable, match="define it in a file"):
        of(namespace["f"])


def test_a_variable_without_value_fails_where_it_is_used() -> None:
    def only_once(x: int) -> Any:
        if x > 0:
            y = 1
        return y + 1

    assert of(only_once)(1) == 2
    with pytest.raises(UnboundLocalError, match="'y'"):
        of(only_once)(0)
