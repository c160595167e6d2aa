"""`if` on a tensor: both branches become blocks, and each changed variable one of two values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from refluid.build import apply
from refluid.core.dtypes import VarType
from refluid.fluid.dygraph.translation.declaring import drop_blocks, inside, new_block
from refluid.fluid.dygraph.translation.numbers import Number, constant, number, number_type
from refluid.fluid.dygraph.translation.structures import (
    alike,
    copied,
    parts_of,
    put_back,
    rebuilt,
    same,
)
from refluid.fluid.dygraph.translation.values import (
    NOTHING,
    StatementState,
    TensorArray,
    Unset,
    is_tensor,
    static,
)
from refluid.fluid.functions.control.branching import select_input
from refluid.fluid.functions.control.conditional import (
    outer_variables,
    read_from_outside,
    written_outside,
)
from refluid.fluid.functions.math.elementwise import logical_not
from refluid.fluid.functions.tensor.assignment import assign, cast
from refluid.ir.block import Block
from refluid.ir.defaults import default_main_program
from refluid.ir.variable import Variable
from refluid.translate import FLAGS

_NUMBERS = (bool, int, float)
_PYTHONS = (*_NUMBERS, Number)


@dataclass(frozen=True)
class Grown(Exception):
    """A list to which a branch appended, at a place of the state: it must be an array."""

    number: int


@dataclass
class _Branch:
    """A traced branch: its block, and the state that it left."""

    block: Block
    after: tuple[Any, ...]


def branch(
    test: Variable, then: Callable[[], None], otherwise: Callable[[], None], state: StatementState
) -> None:
    """Traces both branches, and sets each variable of the state to what the right one gives."""
    before = state.get()
    while True:
        program = default_main_program()
        count = len(program.blocks)
        try:
            _branch(test, then, otherwise, state, before)
            return
        except Grown as grown:
            drop_blocks(count)
            before = with_array(before, grown.number, state)


def with_array(before: tuple[Any, ...], number: int, state: StatementState) -> tuple[Any, ...]:
    """The state with a list of it as an array."""
    found = before[number]
    tensors = [one for one in found if is_tensor(one)]
    dtype = tensors[0].dtype if tensors else VarType.FP32
    changed = (*before[:number], TensorArray(found, dtype), *before[number + 1 :])
    set_state(state, changed)
    return changed


def set_state(state: StatementState, values: tuple[Any, ...]) -> None:
    """Gives the variables of a state these values."""
    if state.set is not None:
        state.set(values)


def _branch(
    test: Variable,
    then: Callable[[], None],
    otherwise: Callable[[], None],
    state: StatementState,
    before: tuple[Any, ...],
) -> None:
    first, second = _traced(then, state, before), _traced(otherwise, state, before)
    set_state(state, before)
    merger = Merger(first.block, second.block)
    # After a jump nobody asks for what only the other branch sets.
    ends = [
        [NOTHING if left and isinstance(one, Unset) else one for one in after]
        for after, left in (
            (traced.after, _jumps(state.names, traced.after)) for traced in (first, second)
        )
    ]
    merged = [
        merger.merged(name, number, old, one, other)
        for number, (name, old, one, other) in enumerate(
            zip(state.names, before, *ends, strict=True)
        )
    ]
    condition(test, first.block)
    condition(logical_not(test), second.block)
    chosen = merger.select(test)
    values = [put_back(old, chosen(one)) for old, one in zip(before, merged, strict=True)]
    set_state(state, tuple(values))


def _jumps(names: Sequence[str], after: Sequence[Any]) -> bool:
    """Whether a branch has left the function, the loop or the round."""
    pairs = zip(names, after, strict=True)
    return any(value is True and name.rpartition("_")[0] in FLAGS for name, value in pairs)


def _traced(part: Callable[[], None], state: StatementState, before: tuple[Any, ...]) -> _Branch:
    set_state(state, tuple(copied(one) for one in before))
    with new_block() as block:
        part()
        after = tuple(static_parts(one) for one in state.get())
    return _Branch(block, after)


def static_parts(value: Any) -> Any:
    """A value with all tensors in it as variables of the program."""
    if alike(value):
        return rebuilt(value, [static_parts(one) for one in parts_of(value)])
    return static(value)


def condition(test: Variable, block: Block) -> None:
    """Appends the operator that runs a block where a condition holds."""
    program = block.program
    parent = program.current_block()
    read = [name for name in read_from_outside(block) if name != test.name]
    outputs = {
        "Out": written_outside(block, parent),
        "Scope": parent.create_var(type=VarType.STEP_SCOPES),
    }
    inputs = {"Cond": [test], "Input": outer_variables(read, parent)}
    attrs = {"sub_block": block, "is_scalar_condition": True}
    apply("conditional_block", inputs, outputs, attrs, block=parent)


@dataclass(frozen=True)
class _Pair:
    """Variables of the enclosing block, of which one is given a value."""

    first: Variable
    second: Variable
    number: bool


class Merger:
    """Makes one value of those that two branches give."""

    def __init__(self, first: Block, second: Block) -> None:
        self.blocks = first, second
        self._known: dict[tuple[int, int], _Pair] = {}

    def merged(self, name: str, number: int, old: Any, one: Any, other: Any) -> Any:
        """Two values as one, with pairs where a branch decides."""
        if one is other or (not is_tensor(one) and not is_tensor(other) and same(one, other)):
            return one
        if alike(one, other):
            pairs = zip(parts_of(one), parts_of(other), strict=True)
            parts = [self.merged(name, number, None, *two) for two in pairs]
            return rebuilt(one, parts)
        if (grown(old, one) or grown(old, other)) and _are_lists(one, other):
            raise Grown(number)
        return self._pair(name, one, other)

    def _pair(self, name: str, one: Any, other: Any) -> Any:
        if not is_carried(one) or not is_carried(other):
            for has, lacks in ((one, other), (other, one)):
                if isinstance(lacks, Unset):
                    return Unset(
                        name,
                        "an `if` on a tensor sets it in one branch only; set it "
                        "before the `if`, or in both branches",
                    )
                if lacks is NOTHING and alike(has):
                    parts = (
                        [self._pair(name, part, NOTHING) for part in parts_of(has)]
                        if (has is one)
                        else [self._pair(name, NOTHING, part) for part in parts_of(has)]
                    )
                    return rebuilt(has, parts)
            return Unset(name, _differ(one, other))
        if one is NOTHING and other is NOTHING:
            return NOTHING
        known = self._known.get((id(one), id(other)))
        if known is None or not (is_tensor(one) and is_tensor(other)):
            like = next((two for two in (one, other) if is_tensor(two)), None)
            dtype = (
                like.dtype
                if like is not None
                else number_type(*[two for two in (one, other) if two is not NOTHING])
            )
            outs = [
                self._handed_out(block, value, dtype, like)
                for block, value in zip(self.blocks, (one, other), strict=True)
            ]
            numbers = all(two is NOTHING or isinstance(two, _PYTHONS) for two in (one, other))
            known = _Pair(outs[0], outs[1], numbers)
            self._known[id(one), id(other)] = known
        return known

    def _handed_out(self, block: Block, value: Any, dtype: Any, like: Any) -> Variable:
        """A variable of the enclosing block that the branch gives the value."""
        parent = default_main_program().current_block()
        with inside(block):
            if not is_tensor(value):
                value = filled(value, dtype, like)
            shape = value.shape if value.has_description() else None
            made = parent.create_var(dtype=value.dtype, shape=shape, type=value.type)
            assign(value, made)
        return made

    def select(self, test: Variable) -> Callable[[Any], Any]:
        """What gives the value of a merged one, by the condition."""
        mask: list[Variable] = []
        found: dict[int, Variable] = {}

        def chosen(value: Any) -> Any:
            if isinstance(value, _Pair):
                if not mask:
                    mask.append(cast(test, dtype="int32"))
                if id(value) not in found:
                    made = select_input([value.second, value.first], mask[0])
                    found[id(value)] = number(made) if value.number else made
                return found[id(value)]
            if alike(value):
                return rebuilt(value, [chosen(one) for one in parts_of(value)])
            return value

        return chosen


def grown(old: Any, new: Any) -> bool:
    """Whether a part of a function appended to a list."""
    if type(old) is not list:
        return False
    return isinstance(new, TensorArray) or (type(new) is list and len(new) > len(old))


def _are_lists(*values: Any) -> bool:
    return all(isinstance(one, list | TensorArray) for one in values)


def is_carried(value: Any) -> bool:
    """Whether a program can hold it: a tensor, a number, or what no branch has returned yet."""
    return is_tensor(value) or isinstance(value, _NUMBERS) or value is NOTHING


def filled(value: Any, dtype: Any, like: Variable | None) -> Variable:
    """A number as a tensor; for nothing one of the shape that the other branch gives."""
    if value is not NOTHING:
        return constant(value, dtype)
    shape = (1,) if like is None else tuple(max(size, 1) for size in like.shape)
    return constant(0, dtype, shape)


def _differ(one: Any, other: Any) -> str:
    first, second = (
        "nothing" if value is NOTHING else "a tensor" if is_tensor(value) else repr(value)
        for value in (one, other)
    )
    return (
        f"one branch of an `if` on a tensor gives it {first}, the other one {second}; only "
        "tensors and numbers can depend on a tensor"
    )
