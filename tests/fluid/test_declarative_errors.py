"""What can't be a program is an error that shows the user's line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid

dygraph, layers = fluid.dygraph, fluid.layers


@pytest.fixture(autouse=True)
def _translator() -> Iterator[None]:
    yield
    dygraph.ProgramTranslator().reset()


def _assertion(x: Any) -> Any:
    assert layers.mean(x) > 0, "mean is positive"
    return x


def _two_kinds(x: Any) -> Any:
    if layers.mean(x) > 0:
        y = x
    else:
        y = "text"
    return y


def _one_branch(x: Any) -> Any:
    if layers.mean(x) > 0:
        y = x
    return y + 1


def _none_before(x: Any) -> Any:
    h = None
    while layers.mean(x) < 3:
        x = x + 1
        h = x
    return h


def _recursive(x: Any) -> Any:
    if layers.mean(x) > 3:
        return x
    return _recursive(x + 1)


def _several(x: Any) -> Any:
    if x > 0:
        return x
    return -x


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (_two_kinds, UnboundLocalError, "'y'.* one branch .* 'text'"),
        (_one_branch, UnboundLocalError, "'y'.* in one branch only"),
        (_none_before, TypeError, "'h' is None before a loop over tensors"),
        (_recursive, RecursionError, "_recursive calls itself"),
        (_several, ValueError, r"one truth value, .* shape \[2, 2\]"),
    ],
)
def test_errors(function: Any, error: type[Exception], message: str) -> None:
    with dygraph.guard(), pytest.raises(error, match=message) as raised:
        dygraph.declarative(function)(np.ones([2, 2], "float32"))
    files = [entry.path for entry in raised.traceback]
    assert Path(__file__) in [Path(str(file)) for file in files]


def test_an_assertion_is_tried_in_each_run() -> None:
    declared = dygraph.declarative(_assertion)
    with dygraph.guard():
        declared(np.ones([2], "float32"))
        with pytest.raises(Exception, match="mean is positive"):
            declared(-np.ones([2], "float32"))
