"""How one operator becomes one line of a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refluid.analysis.liveness import EMPTY, key_of, written_in_place
from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.ops.element_types import check_kind
from refluid.ops.registry import OperatorDef, find
from refluid.ops.signature import GRAD
from refluid.runtime.pairing import Pair, recompute, recorder, replayer, wanted_inputs
from refluid.runtime.source import literal

if TYPE_CHECKING:
    from refluid.runtime.codegen import Writer

_CONTEXT = {"comm": "comm=comm", "device": "device=device", "random": "random=random"}


@dataclass(frozen=True)
class How:
    """How an operator is called.

    pair: it is, or reads, a recording for autograd. reuse: slot and variable that it may
    overwrite. copy: its result is a view that must become a copy. unread: output slots that
    nobody reads. alone: variables it overwrites and needn't copy before.
    """

    pair: Pair | None = None
    reuse: tuple[str, str] | None = None
    copy: bool = False
    unread: frozenset[str] = frozenset()
    alone: frozenset[str] = frozenset()


def write_call(writer: Writer, op: Operator, how: How) -> None:
    """Writes `outputs = type(inputs, attributes)` and what the scope must learn of it."""
    definition = find(op.type)
    assert definition is not None
    _require_inputs(op, definition)
    check_kind(op)
    made = writer.lods.made(op, definition)
    target = ", ".join([_targets(writer, op, definition), *writer.lods.targets(definition, made)])
    options = keywords(op, definition, how.unread) + writer.lods.arguments(
        op, definition.forward or definition
    )
    if definition.body is None:
        _write_derived(writer, op, definition, how.pair, target, options)
    elif how.pair is not None:
        arguments = slots(writer, op, definition, [slot.name for slot in definition.inputs])
        wanted = wanted_inputs(how.pair.gradient_op, definition)
        body = writer.kernel(op, recorder(definition, wanted))
        name = writer.source.constant(f"record_{op.type}", body)
        target = f"({target})" if "," in target else target
        call = f"{name}({', '.join(arguments + options)})"
        writer.source.add(f"{how.pair.name}, {target} = {call}", op)
    elif how.reuse is not None:
        arguments = slots(writer, op, definition, [slot.name for slot in definition.inputs], how)
        name = writer.source.constant(f"{op.type}_", definition.reusing[how.reuse[0]])
        writer.source.add(f"{target} = {name}({', '.join(arguments + options)})", op)
    else:
        arguments = slots(writer, op, definition, [slot.name for slot in definition.inputs], how)
        name = writer.source.constant(op.type, writer.kernel(op, definition.body))
        call = f"{name}({', '.join(arguments + options)})"
        writer.source.add(f"{target} = {call}", op)
        if how.copy:
            first = writer.local(op.block, op.output(definition.outputs[0].name)[0])
            writer.source.add(f"{first} = {first}.clone()", op)
    _note_outputs(writer, op, definition)
    for line in writer.lods.note(writer, op, definition, made):
        writer.source.add(line, op)


def _require_inputs(op: Operator, definition: OperatorDef) -> None:
    for slot in definition.inputs:
        if not slot.optional and not op.input(slot.name):
            where = "\n".join(op.callstack)
            raise EnforceNotMet(f"operator {op.title}: its input {slot.name!r} is missing\n{where}")


def _write_derived(
    writer: Writer,
    op: Operator,
    definition: OperatorDef,
    pair: Pair | None,
    target: str,
    options: list[str],
) -> None:
    """A gradient operator that nobody wrote by hand: from a recording, or by recomputing."""
    forward = definition.forward
    assert forward is not None
    wanted = wanted_inputs(op, forward)
    body: Callable[..., Any]
    if pair is not None:
        given = [slot.name + GRAD for slot in forward.outputs]
        body = replayer(forward, wanted)
        arguments = [pair.name, *slots(writer, op, definition, given)]
    else:
        names = [slot.name for slot in forward.inputs]
        names += [slot.name + GRAD for slot in forward.outputs]
        body = recompute(forward, wanted)
        arguments = slots(writer, op, definition, names) + options
    name = writer.source.constant(op.type, writer.kernel(op, body))
    writer.source.add(f"{target} = {name}({', '.join(arguments)})", op)
    if pair is not None:
        writer.source.add(f"del {pair.name}")


def write_batch(writer: Writer, ops: Sequence[Operator]) -> None:
    """Writes several operators of one type as one call with a list per slot."""
    definition = find(ops[0].type)
    assert definition is not None
    assert definition.many is not None
    name = writer.source.constant(f"{definition.type}_many", definition.many)
    lists = []
    for slot in definition.inputs:
        values = [writer.local(op.block, var) for op in ops for var in op.input(slot.name)]
        lists.append(f"[{', '.join(values)}]")
    options = keywords(ops[0], definition)
    writer.source.add(f"{name}({', '.join(lists + options)})", ops[0])


def keywords(
    op: Operator, definition: OperatorDef, unread: frozenset[str] = frozenset()
) -> list[str]:
    """`axis=1`, `device=device`: attributes that differ from the default, and the context."""
    source = definition.forward if definition.body is None else definition
    assert source is not None
    parts = []
    for name, keyword in source.keywords.items():
        if name in op.attrs and op.attrs[name] != source.attributes[name].default:
            parts.append(f"{keyword}={literal(op.attrs[name])}")
    parts += [_CONTEXT[name] for name in sorted(source.context) if name in _CONTEXT]
    if "need" in source.context:
        needed = tuple(
            any(name != EMPTY for name in op.output(slot.name)) and slot.name not in unread
            for slot in definition.outputs
        )
        parts.append(f"need={literal(needed)}")
    if "counts" in source.context:
        counts = tuple(len(op.output(slot.name)) for slot in definition.outputs)
        parts.append(f"counts={literal(counts)}")
    return parts


def slots(
    writer: Writer,
    op: Operator,
    definition: OperatorDef,
    names: Sequence[str],
    how: How | None = None,
) -> list[str]:
    """Values of the given input slots, as source; a copy where the body overwrites what is not
    its own, and the variable to reuse first in its slot."""
    own = dict(written_in_place(op, definition))
    overwritten = set(definition.mutates.values())
    many = {slot.name for slot in definition.inputs if slot.many}
    parts = []
    for slot in names:
        arguments = op.input(slot)
        if how is not None and how.reuse is not None and slot == how.reuse[0]:
            arguments.remove(how.reuse[1])
            arguments.insert(0, how.reuse[1])
        values = [writer.local(op.block, name) for name in arguments]
        if slot in overwritten and own.get(slot) not in writer.state:
            alone = how.alone if how is not None else ()
            values = [
                value if name in alone else f"{value}.clone()"
                for name, value in zip(arguments, values, strict=True)
            ]
        if slot in many:
            parts.append(f"[{', '.join(values)}]" if values else "None")
        else:
            parts.append(values[0] if values else "None")
    return parts


def _targets(writer: Writer, op: Operator, definition: OperatorDef) -> str:
    parts = []
    for slot in definition.outputs:
        names = [
            "_"
            if name == EMPTY or slot.name in definition.untouched
            else writer.local(op.block, name)
            for name in op.output(slot.name)
        ]
        if slot.many:
            parts.append(f"[{', '.join(names)}]" if names else "_")
        else:
            parts.append(names[0] if names else "_")
    return ", ".join(parts) or "_"


def _note_outputs(writer: Writer, op: Operator, definition: OperatorDef) -> None:
    """Writes new persistable values back, and notes the freshness of the outputs."""
    in_place = {key for _, key in written_in_place(op, definition)}
    for slot in definition.outputs:
        shared = slot.name in definition.views
        for name in op.output(slot.name):
            key = key_of(op.block, name)
            if name == EMPTY or slot.name in definition.untouched:
                continue
            if key not in writer.state:
                writer.fresh -= {key}
                writer.fresh |= set() if shared else {key}
            elif key not in in_place:
                local = writer.local(op.block, name)
                if shared:
                    writer.source.add(f"{local} = {local}.clone()", op)
                writer.source.add(f"C[{writer.state[key]}].value = {local}", op)
