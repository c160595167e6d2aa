"""Messages fit on a screen, whatever they quote."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.core.texts import LONGEST_LINE, MOST_LINES, screenful, shortened
from refluid.ir.schema import Attribute
from refluid.ops.registry import operators
from tests.choices import often

SCREEN = 10_000
HUGE: tuple[Any, ...] = ([1] * 30_000, ["x" * 50] * 3_000, "y" * 100_000, [0.5] * 30_000)
# They run code or write files, or print what they are given.
_LEFT_OUT = ("py_func", "load", "save", "load_combine", "save_combine", "print", "delete_var")
TYPES = [one.type for one in operators() if one.body and not one.type.endswith("_grad")]

ASKED = [one for one in TYPES if one not in _LEFT_OUT][::4]


def test_short_texts_stay() -> None:
    assert shortened("a" * LONGEST_LINE) == "a" * LONGEST_LINE
    assert screenful("short\nlines") == "short\nlines"


def test_long_texts_keep_their_ends() -> None:
    made = shortened(f"begin {'x' * 10_000} end")
    assert len(made) <= LONGEST_LINE
    assert made.startswith("begin xxx")
    assert made.endswith("xxx end")
    assert "characters ..." in made
    made = screenful("\n".join(f"line {number} {'x' * 1000}" for number in range(1000)))
    assert len(made.splitlines()) == MOST_LINES + 1
    assert "line 0 " in made
    assert "line 999 " in made
    assert "... 940 lines ..." in made


def test_errors_fit_on_a_screen() -> None:
    assert len(str(EnforceNotMet("x" * 400_000))) <= LONGEST_LINE


def _failure(op_type: str, name: str, value: Any, known: dict[str, Attribute]) -> Exception | None:
    main = fluid.Program()
    block = main.global_block()
    (found,) = [one for one in operators() if one.type == op_type]
    inputs = {}
    for slot in found.inputs:
        var = block.create_var(name=slot.name, shape=[2, 3], dtype="float32")
        var.is_data = True
        inputs[slot.name] = [var]
    outputs = {one.name: [block.create_var(name=f"made {one.name}")] for one in found.outputs}
    attrs = {one: 1 for one, attribute in known.items() if attribute.required} | {name: value}
    feed = {one[0].name: np.zeros((2, 3), "float32") for one in inputs.values()}
    try:
        block.append_op(type=op_type, inputs=inputs, outputs=outputs, attrs=attrs)
        fluid.Executor().run(main, feed, [one[0] for one in outputs.values()])
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("op_type", often(ASKED, ASKED[::2]))
def test_errors_about_huge_attributes_fit_on_a_screen(op_type: str) -> None:
    (found,) = [one for one in operators() if one.type == op_type]
    for name in found.attributes:
        for value in HUGE:
            error = _failure(op_type, name, value, found.attributes)
            if error is not None:
                assert len(str(error)) < SCREEN
                assert len("".join(traceback.format_exception(error))) < 10 * SCREEN


def test_a_plan_shows_no_huge_line() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [None, 4], "float32")
        numbers = fluid.layers.assign(np.arange(200_000, dtype="float32").reshape(-1, 2))
        out = fluid.layers.mul(x, fluid.layers.reshape(numbers, [-1, 4])[:4])
        block = main.global_block()
        (op,) = [one for one in block.ops if one.type == "assign_value"]
        op._set_attr("shape", [3, 5])
    with pytest.raises(EnforceNotMet, match="operator assign_value failed") as raised:
        fluid.Executor().run(main, {"x": np.ones((2, 4), "float32")}, [out])
    assert len("".join(traceback.format_exception(raised.value))) < SCREEN


@pytest.mark.parametrize("count", [3, 50_000])
def test_sequences_that_do_not_fit_are_shown_in_short(count: int) -> None:
    lists = [[1, 2]] * count
    with pytest.raises(AssertionError, match="do not match") as raised:
        fluid.create_lod_tensor(lists, [[3] * count], fluid.CPUPlace())
    assert len(str(raised.value)) < SCREEN
