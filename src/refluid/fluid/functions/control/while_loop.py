"""Loops: a block of operators that runs as long as a condition holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from refluid.build import apply, at_once, check_variables
from refluid.core.dtypes import VarType
from refluid.fluid.functions.control.conditional import (
    BlockGuard,
    outer_variables,
    read_from_outside,
    written_outside,
)
from refluid.fluid.functions.control.structures import assert_same_structure, map_structure
from refluid.fluid.functions.tensor.assignment import assign
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.block import Block
from refluid.ir.variable import Variable


class While:
    """A block that runs while `cond` holds; the block must change `cond`.

        with fluid.layers.While(cond=cond).block():
            fluid.layers.increment(i)
            fluid.layers.less_than(i, limit, cond=cond)

    cond: bool of shape (1,); TypeError otherwise. is_test: nothing is kept for a backward pass.
    """

    BEFORE_WHILE_BLOCK, IN_WHILE_BLOCK, AFTER_WHILE_BLOCK = range(3)

    def __init__(self, cond: Variable, is_test: bool = False, name: str | None = None) -> None:
        _require_condition("While", cond)
        self.helper = LayerHelper("while", name=name)
        self.status = self.BEFORE_WHILE_BLOCK
        self.cond_var, self.is_test = cond, is_test

    @contextmanager
    def block(self) -> Iterator[None]:
        """Layers within the `with` block are those of the loop."""
        program = self.helper.main_program
        self.status = self.IN_WHILE_BLOCK
        with BlockGuard(program):
            yield
            inside = program.current_block()
        self.status = self.AFTER_WHILE_BLOCK
        self._append(inside, program.current_block())

    def _append(self, inside: Block, parent: Block) -> None:
        condition = [self.cond_var.name]
        inputs = {
            "X": outer_variables(read_from_outside(inside, condition), parent),
            "Condition": self.cond_var,
        }
        outputs = {
            "Out": written_outside(inside, parent, condition),
            "StepScopes": parent.create_var(type=VarType.STEP_SCOPES),
        }
        attrs = {"sub_block": inside, "is_test": self.is_test}
        apply("while", inputs, outputs, attrs, block=parent)


def _require_condition(where: str, cond: Any) -> None:
    check_variables(where, {"cond": cond})
    if cond.dtype != VarType.BOOL:
        raise TypeError(f"{where}: the condition {cond.name} is {cond.dtype.name}, not bool")
    size = 1
    for one in cond.shape:
        size *= one
    if size != 1:
        raise TypeError(f"{where}: the condition {cond.name} has shape {cond.shape}, not (1,)")


def while_loop(
    cond: Callable[..., Variable],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    is_test: bool = False,
    name: str | None = None,
) -> Any:
    """`loop_vars` after `body` has been applied to them as long as `cond` of them holds.

    cond: takes the loop variables, gives bool of shape (1,). body: takes them and gives their
    next values, in the same structure. loop_vars: variables, also nested in lists, tuples and
    dicts. Raises TypeError for functions that can't be called or another condition, ValueError
    for no loop variables or values of another structure.
    """
    for what, function in (("cond", cond), ("body", body)):
        if not callable(function):
            raise TypeError(f"{what} in while_loop should be callable")
    if not isinstance(loop_vars, list | tuple):
        raise TypeError(f"loop_vars in while_loop should be a list or tuple, not {loop_vars!r}")
    if not loop_vars:
        raise ValueError("loop_vars in while_loop should not be empty")
    condition = cond(*loop_vars)
    _require_condition("while_loop", condition)
    if at_once():
        return _looped(cond, body, loop_vars, condition)
    with While(condition, is_test, name).block():
        made = _next(body, loop_vars)
        again = cond(*made)
        map_structure(_update, made, loop_vars)
        assign(again, condition)
    return loop_vars


def _next(body: Callable[..., Any], loop_vars: Sequence[Any]) -> Any:
    """What a round makes of the loop's variables; ValueError for another structure."""
    made = body(*loop_vars)
    made = made if isinstance(made, list | tuple) else [made]
    try:
        assert_same_structure(made, loop_vars, check_types=False)
    except ValueError as error:
        raise ValueError(
            "body in while_loop should return the same arity (length and structure) as "
            f"loop_vars: {error}"
        ) from None
    return made


def _looped(
    cond: Callable[..., Variable], body: Callable[..., Any], values: Any, condition: Variable
) -> Any:
    """The loop where operators run at once. condition: of the first round."""
    while bool(condition):
        values = _next(body, values)
        condition = cond(*values)
    return values


def _update(value: Variable, variable: Variable) -> None:
    """Gives a loop variable its next value; an array is changed in place."""
    if variable.type != VarType.LOD_TENSOR_ARRAY:
        assign(value, variable)
    elif value is not variable:
        raise ValueError(
            f"while_loop: the body must change array {variable.name} itself (array_write), not "
            f"give another one"
        )
