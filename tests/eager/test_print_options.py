"""How variables are printed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.eager import print_options
from refluid.paddle import set_printoptions


@pytest.fixture(autouse=True)
def usual(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(print_options, "_options", {})
    with fluid.dygraph.guard():
        yield


def numbers(*values: float) -> str:
    """How they are printed, without the line of their name and type."""
    return repr(fluid.dygraph.to_variable(np.array(values, "float32"))).split("\n", 1)[1]


def test_numbers_are_printed_as_was_said() -> None:
    assert numbers(1.23456, 1000.5) == "[   1.23456 1000.5    ]"
    set_printoptions(precision=2)
    assert numbers(1.23456, 1000.5) == "[   1.23 1000.5 ]"
    set_printoptions(sci_mode=True)
    assert numbers(1.23456, 1000.5) == "[1.23e+00 1.00e+03]"
    set_printoptions(sci_mode=False, threshold=3, edgeitems=1)
    assert numbers(*range(10)) == "[0. ... 9.]"
    set_printoptions(threshold=100, linewidth=12)
    assert numbers(*range(4)) == "[0. 1. 2.\n 3.]"
    assert np.get_printoptions()["precision"] == 8  # NumPy's own stay as they are


@pytest.mark.parametrize("name", ["precision", "threshold", "edgeitems", "linewidth"])
def test_options_are_whole_numbers(name: str) -> None:
    for value in (1.5, "3", True):
        with pytest.raises(TypeError, match=f"{name} is an int"):
            set_printoptions(**{name: value})  # type: ignore[arg-type]
