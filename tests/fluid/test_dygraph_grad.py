"""`dygraph.grad`: what it refuses in words, and variables that count as constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.fluid import dygraph


def _ones(*shape: int, stops: bool = False) -> Any:
    x = dygraph.to_variable(np.ones(shape, "float32"))
    x.stop_gradient = stops
    return x


def _stopped() -> Any:
    x = _ones(2)
    y = x * x
    y.stop_gradient = True
    return dygraph.grad(y, x)


def _without_graph() -> Any:
    x = _ones(2)
    with dygraph.no_grad():
        y = x * x
    return dygraph.grad(y, x)


def _of_another_shape() -> Any:
    x = _ones(2)
    return dygraph.grad(x * x, x, [_ones(3)])


def _of_an_array() -> Any:
    x = _ones(2)
    return dygraph.grad((x * x).numpy(), x)


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: dygraph.grad(_ones(2) * 2.0, _ones(2)), EnforceNotMet, "no output depends on"),
    (lambda: dygraph.grad(_ones(2) * 2.0, _ones(2)), ValueError, "pass allow_unused=True"),
    (lambda: dygraph.grad(_ones(2), _ones(2, stops=True)), EnforceNotMet, "set it to False"),
    (_stopped, EnforceNotMet, "depends on .*stop_gradient is set"),
    (_without_graph, EnforceNotMet, "or no_grad was in force"),
    (_of_another_shape, EnforceNotMet, r"its shape \[2\] but is \[3\]"),
    (_of_an_array, AssertionError, "outputs must be variables"),
]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED)
def test_what_is_refused(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with dygraph.guard(), pytest.raises(kind, match=message):
        call()


def test_what_nothing_depends_on_may_be_none() -> None:
    with dygraph.guard():
        x, y = _ones(1), _ones(1)
        assert dygraph.grad([x * 2.0], [x, y], allow_unused=True)[1] is None
        doubled = x * 2.0
        doubled.stop_gradient = True
        assert dygraph.grad(doubled, x, allow_unused=True) == [None]
        found = dygraph.grad([doubled, x * 3.0], x)
        np.testing.assert_array_equal(found[0].numpy(), [3.0])


def test_no_gradient_leads_through_constants() -> None:
    with dygraph.guard():
        x = fluid.layers.fill_constant([1], "float32", 3.0)
        x.stop_gradient = False
        for _ in range(4):  # calls that come again are kept, and run otherwise
            y = x * x
            z = y * x
            (found,) = dygraph.grad(z, x, no_grad_vars=[y], retain_graph=True)
            np.testing.assert_array_equal(found.numpy(), [9.0])
            np.testing.assert_array_equal(dygraph.grad(z, x)[0].numpy(), [27.0])
