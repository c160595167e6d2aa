"""Finds what is wrong with a program before it runs.

Rules look at one operator at a time and give messages; `RULES` names them all. `verify` adds
where the operator stands and which of the user's lines made it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from refluid.analysis.uses import Key, find_variable, key_of, uses_in, writes
from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.ir import schema
from refluid.ir.attributes import AttrType
from refluid.ir.block import Block
from refluid.ir.names import EMPTY, GRAD, without_part
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.ops.registry import facts_of

_SHOWN = 10
# Slots that name objects of the scope which programs don't declare.
_LIVE = {"blocking_queue"}
# What such variables hold is made by the executor or by the operators that first use it.
_MADE_ON_DEMAND = {
    VarType.READER,
    VarType.RAW,
    VarType.FEED_MINIBATCH,
    VarType.FETCH_LIST,
    VarType.STEP_SCOPES,
    VarType.LOD_TENSOR_ARRAY,
}


@dataclass(frozen=True)
class Problem:
    """What is wrong with one operator, by which rule, and where the operator stands."""

    rule: str
    message: str
    block: int
    index: int
    type: str
    callstack: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f"block {self.block}, operator {self.index} ({self.type}): {self.message}"
        return "\n".join([where, *self.callstack])


@dataclass
class _Walk:
    """A way through a program in the order in which it runs.

    by_type: its operators, fused ones also by the types they were made of. written: variables that
    have a value by now.
    """

    program: Program
    feeds: Collection[str]
    by_type: Mapping[str, Sequence[Operator]]
    written: set[Key] = field(default_factory=set)


def verify(program: Program, *, feeds: Collection[str] = ()) -> list[Problem]:
    """All problems of a program, in the order of its operators.

    feeds: names of variables that will be fed, besides those declared as data.
    """
    by_type: defaultdict[str, list[Operator]] = defaultdict(list)
    for block in program.blocks:
        for op in block.ops:
            for type in (op.type, *facts_of(op.type).made_of):
                by_type[type].append(op)
    return list(_verify_block(program.global_block(), _Walk(program, feeds, by_type), {0}))


def check(program: Program, *, feeds: Collection[str] = ()) -> None:
    """Raises EnforceNotMet with the first problems of a program, if it has any."""
    problems = verify(program, feeds=feeds)
    if problems:
        shown = "\n".join(f"- {problem}" for problem in problems[:_SHOWN])
        more = len(problems) - _SHOWN
        tail = f"\nand {more} more" if more > 0 else ""
        raise EnforceNotMet(f"the program has {len(problems)} problem(s):\n{shown}{tail}")


def _verify_block(block: Block, walk: _Walk, seen: set[int]) -> Iterator[Problem]:
    for index, op in enumerate(block.ops):
        for rule, find in RULES.items():
            for message in find(op, walk):
                stack = tuple(op.callstack)
                yield Problem(rule, message, block.idx, index, op.type, stack)
        for inner in op.sub_blocks():
            if inner.idx not in seen:
                seen.add(inner.idx)
                yield from _verify_block(inner, walk, seen)
        walk.written |= writes(op)


def _unknown_operator(op: Operator, _walk: _Walk) -> Iterator[str]:
    if schema.find(op.type) is None:
        yield "refluid has no operator of this type"


def _slots(op: Operator, _walk: _Walk) -> Iterator[str]:
    found = schema.find(op.type)
    if found is None:
        return
    for side, given, slots in (
        ("input", op.inputs, found.inputs),
        ("output", op.outputs, found.outputs),
    ):
        known = {slot.name: slot for slot in slots}
        for name in given.keys() - known.keys():
            if given[name]:
                yield f"it has no {side} {name!r}; its {side}s are {', '.join(known) or 'none'}"
        for slot in slots:
            names = given.get(slot.name, [])
            if not names and not slot.optional:
                yield f"{side} {slot.name!r} is missing"
            if len(names) > 1 and not slot.many:
                yield f"{side} {slot.name!r} takes one variable, not {len(names)}: {names}"


def _attributes(op: Operator, _walk: _Walk) -> Iterator[str]:
    found = schema.find(op.type)
    for name, attribute in found.attributes.items() if found else ():
        kind = op.attr_types.get(name)
        if kind is None and attribute.required:
            yield f"attribute {name!r} is missing; it is a {attribute.kind.name}"
        if kind is not None and kind != attribute.kind:
            yield (
                f"attribute {name!r} is a {attribute.kind.name}, "
                f"but {op.attrs[name]!r} is stored as {kind.name}"
            )


def _declared(op: Operator, _walk: _Walk) -> Iterator[str]:
    nested = op.block.idx != 0 or op.has_sub_blocks
    for side, slots in (("input", op.inputs), ("output", op.outputs)):
        for slot, names in slots.items():
            for name in dict.fromkeys(names):
                if name == EMPTY or slot in _LIVE or (nested and name.endswith(GRAD)):
                    continue  # a gradient that no operator of a nested block computes is none
                if find_variable(op.block, name) is None:
                    yield f"its {side} variable {name!r} is declared in no block around it"


def _read_before_written(op: Operator, walk: _Walk) -> Iterator[str]:
    for name in dict.fromkeys(op.input_arg_names):
        var = find_variable(op.block, name)
        key = key_of(op.block, name)
        if var is None or key in walk.written or _given(var, walk):
            continue
        if op.block.idx != 0 and (var.block.idx != 0 or name in uses_in(op.block).writers):
            continue  # supplied by the operator around the block, or by its last round
        walk.written.add(key)  # one message is enough
        yield (
            f"it reads {name!r} before any operator writes it; initialise it in the startup "
            "program and make it persistable, or feed it"
        )


def _given(var: Variable, walk: _Walk) -> bool:
    given = var.persistable or var.is_data or bool(var.need_check_feed)
    return given or var.name in walk.feeds or var.type in _MADE_ON_DEMAND


def _duplicate_outputs(op: Operator, _walk: _Walk) -> Iterator[str]:
    for name, times in Counter(op.output_arg_names).items():
        if times > 1 and name != EMPTY:
            yield f"it writes {name!r} {times} times"


def _sub_blocks(op: Operator, walk: _Walk) -> Iterator[str]:
    for name, kind in op.attr_types.items():
        if kind not in (AttrType.BLOCK, AttrType.BLOCKS):
            continue
        for inner in [op.attrs[name]] if kind == AttrType.BLOCK else op.attrs[name]:
            if inner.program is not walk.program:
                yield f"attribute {name!r} is block {inner.idx} of another program"
            elif inner.parent_idx != op.block.idx:
                yield (
                    f"attribute {name!r} is block {inner.idx} inside block {inner.parent_idx}, "
                    f"but the operator is in block {op.block.idx}"
                )


def _is_forward(one: Operator, op: Operator, type: str, origins: set[str]) -> bool:
    """Whether `op` may be the gradient of `one`, which may have been fused of that and others."""
    read = origins.intersection(one.input_arg_names)
    fused = one.type != type and not set(op.input_arg_names).isdisjoint(one.output_arg_names)
    return bool(read) or fused


def _gradient_without_forward(op: Operator, walk: _Walk) -> Iterator[str]:
    type = op.type.removesuffix("_grad")
    origins = {_origin(name) for name in op.output_arg_names}
    forward = walk.by_type.get(type, ())
    if type != op.type and not any(_is_forward(one, op, type, origins) for one in forward):
        yield f"no operator {type} of the program reads what it computes the gradients of"


def _origin(gradient: str) -> str:
    """The variable that a gradient is of."""
    name = without_part(gradient).removesuffix(GRAD)
    while name.startswith("grad/"):
        name = name.removeprefix("grad/")
    return name


FindProblems = Callable[[Operator, _Walk], Iterator[str]]
RULES: dict[str, FindProblems] = {
    "unknown operator": _unknown_operator,
    "slots": _slots,
    "attributes": _attributes,
    "declared": _declared,
    "read before written": _read_before_written,
    "duplicate outputs": _duplicate_outputs,
    "sub-blocks": _sub_blocks,
    "gradient without forward": _gradient_without_forward,
}
