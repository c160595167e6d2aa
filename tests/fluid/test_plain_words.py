"""What torch or Python refuse is said in plain words, with operator, line, types and the fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet

L = fluid.layers
SIZES = "the sizes of its inputs don't go together"
TYPES = "it can't compute with these types of elements"
RANK = "an input has another number of dimensions than it needs"
EMPTY = "an input has nothing where something is needed"

# What is called, the inputs, what is said in plain words, one of the inputs, and the fix.
WRONG: dict[str, tuple[Callable[..., Any], list[Any], str, str, str]] = {
    "sizes joined": (
        lambda x, y: L.concat([x, y], 1),
        [np.zeros((2, 3), "float32"), np.zeros((3, 3), "float32")],
        SIZES,
        "float32[3, 3]",
        "must be equal in all dimensions but `axis`",
    ),
    "sizes stacked": (
        lambda x, y: L.stack([x, y]),
        [np.zeros((2, 3), "float32"), np.zeros((2, 4), "float32")],
        SIZES,
        "float32[2, 4]",
        "what is stacked must be of one shape",
    ),
    "ranks joined": (
        lambda x, y: L.concat([x, y], 1),
        [np.zeros((2, 3), "float32"), np.zeros((2, 3, 2), "float32")],
        RANK,
        "float32[2, 3, 2]",
        "reshape, squeeze or unsqueeze",
    ),
    "a product": (
        lambda x, y: L.mul(x, y),
        [np.zeros((2, 3), "float32"), np.zeros((4, 2), "float32")],
        SIZES,
        "float32[4, 2]",
        "the columns of the first must be as many as the rows of the second",
    ),
    "half of a type": (
        lambda x: L.prelu(x, "all"),
        [np.zeros((2, 3, 4, 4), "float16")],
        TYPES,
        "float16[2, 3, 4, 4]",
        "use layers.cast",
    ),
    "a mean of integers": (
        lambda x: L.group_norm(x, 2, param_attr=False, bias_attr=False),
        [np.zeros((2, 4, 3, 3), "int32")],
        "op group_norm does not have kernel for data_type[int]: its inputs",
        "int32[2, 4, 3, 3]",
        "use layers.cast",
    ),
    "double precision": (
        lambda x: L.prelu(x, "all"),
        [np.zeros((2, 3, 4, 4))],
        "desires to be double: prelu takes",
        "float64[2, 3, 4, 4]",
        "use layers.cast",
    ),
    "rows of another type": (
        lambda x, y: L.scatter(x, L.fill_constant([2], "int64", 1), y),
        [np.zeros((4, 3), "float32"), np.zeros((2, 3), "float64")],
        TYPES,
        "float64[2, 3]",
        "use layers.cast",
    ),
    "a product of none": (
        lambda x: L.mul(x, L.ones([12, 2], "float32")),
        [np.zeros((0, 4, 3), "float32")],
        EMPTY,
        "float32[0, 4, 3]",
        "feed at least one row",
    ),
    "the greatest of none": (
        lambda x: L.reduce_max(x, 0),
        [np.zeros((0, 3), "float32")],
        EMPTY,
        "float32[0, 3]",
        "feed at least one row",
    ),
}


def _said(error: EnforceNotMet, says: str, given: str, fix: str) -> None:
    text = str(error)
    assert text.startswith("operator "), text
    assert says in text.splitlines()[0]
    assert given in text
    assert fix in text.split("Fix: ")[1]
    assert __file__ in text


@pytest.mark.parametrize("case", WRONG)
def test_at_once(case: str) -> None:
    call, arrays, says, given, fix = WRONG[case]
    with fluid.dygraph.guard(), pytest.raises(EnforceNotMet) as found:
        call(*(fluid.dygraph.to_variable(array) for array in arrays))
    _said(found.value, says, given, fix)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("case", WRONG)
def test_in_programs(case: str, known: bool) -> None:
    """Where sizes are known it is said where the operator is made, else where it runs."""
    call, arrays, says, given, fix = WRONG[case]
    main, startup = fluid.Program(), fluid.Program()

    def run() -> None:
        with fluid.program_guard(main, startup):
            shapes = [
                [*array.shape] if known and array.size else [None, *array.shape[1:]]
                for array in arrays
            ]
            vars = [
                fluid.data(f"x{number}", shape, str(array.dtype))
                for number, (array, shape) in enumerate(zip(arrays, shapes, strict=True))
            ]
            out = call(*vars)
        exe = fluid.Executor()
        exe.run(startup)
        exe.run(main, {f"x{number}": array for number, array in enumerate(arrays)}, [out])

    with (
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
        pytest.raises(EnforceNotMet) as found,
    ):
        run()
    if "[-1, " not in str(found.value):
        _said(found.value, says, given, fix)
    else:
        _said(found.value, says, given.replace(f"[{arrays[-1].shape[0]}", "[-1"), fix)
