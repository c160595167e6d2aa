"""How one operator becomes one step of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refluid.analysis.liveness import written_in_place
from refluid.analysis.uses import key_of
from refluid.core.errors import EnforceNotMet
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ops.effects import OUTSIDE
from refluid.ops.element_types import check_kind
from refluid.ops.registry import OperatorDef, facts_of, find
from refluid.runtime.known_updates import updates_of
from refluid.runtime.pairing import Pair, recompute, recorder, replayer, wanted_inputs
from refluid.runtime.source import literal
from refluid.runtime.steps import Bind, Call, ExchangeStart, ExchangeWait, Free, Store
from refluid.runtime.trees import COMM, DEVICE, IGNORED, RANDOM, Name, Tree, copied, leaves
from refluid.runtime.writing import Writing

_CONTEXT = {"comm": COMM, "device": DEVICE, "random": RANDOM}


@dataclass(frozen=True)
class CallOptions:
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


def write_call(writer: Writing, op: Operator, how: CallOptions) -> None:
    """Writes `outputs = type(inputs, attributes)` and what the scope must learn of it."""
    definition = find(op.type)
    assert definition is not None
    _require_inputs(op, definition)
    check_kind(op)
    made = writer.lods.made(op, definition)
    target = _target(writer, op, definition, writer.lods.targets(definition, made))
    options = keywords(op, definition, how.unread) | writer.lods.arguments(
        op, definition.forward or definition
    )
    if "op" in definition.context:
        options["op"] = writer.source.constant(f"{op.type}_op", op)
    if definition.body is None:
        _write_derived(writer, op, definition, how.pair, target, options)
    else:
        name, body, given = op.type, definition.body, how
        if how.pair is not None:
            wanted = wanted_inputs(how.pair.gradient_op, definition)
            name, body, given = f"record_{op.type}", recorder(definition, wanted), CallOptions()
            target = (how.pair.name, target)
        elif how.reuse is not None:
            name, body = f"{op.type}_", definition.reusing[how.reuse[0]]
        if how.pair is not None or how.reuse is None:
            body = writer.kernel(op, body)
        arguments = slots(writer, op, definition, [slot.name for slot in definition.inputs], given)
        changes = _changes(definition, arguments)
        if given.reuse is not None:
            changes |= {one for one in [writer.local(op.block, given.reuse[1])] if one}
        function = writer.source.constant(name, body)
        call = Call(target, function, tuple(arguments.values()), options, changes=changes, op=op)
        call.acts = definition.effects & OUTSIDE
        if writer.request.overlaps and definition.starting and how.pair is None:
            _write_started(writer, call, definition.starting)
        else:
            writer.source.add(call)
        if how.copy and how.pair is None and how.reuse is None:
            first = writer.local(op.block, op.output(definition.outputs[0].name)[0])
            writer.source.add(Bind(first, copied(first), op=op))
    _note_outputs(writer, op, definition)
    writer.lods.note(op, definition, made)


def _write_started(writer: Writing, call: Call, body: Callable[..., Any]) -> None:
    """Writes a call that exchanges as a start and a wait, which `overlapping` parts."""
    results = frozenset(one for one in leaves(call.target) if isinstance(one, Name))
    work = Name(f"work_{min(results)}")
    function = writer.source.constant(body.__name__, body)
    target, acts, op = (call.target, work), call.acts, call.op
    writer.source.add(ExchangeStart(target, function, call.args, call.kwargs, acts=acts, op=op))
    writer.source.add(ExchangeWait(work, changes=results, acts=acts, op=op))


def _changes(definition: OperatorDef, arguments: Mapping[str, Tree]) -> frozenset[Name]:
    """The variables that the body overwrites by name, of what it is given in each slot."""
    given = [arguments[slot] for slot in definition.mutates.values() if slot in arguments]
    several = [one if isinstance(one, list) else [one] for one in given]
    return frozenset(one for values in several for one in values if isinstance(one, Name))


def _require_inputs(op: Operator, definition: OperatorDef) -> None:
    for slot in definition.inputs:
        if not slot.optional and not op.input(slot.name):
            where = op.made_at
            raise EnforceNotMet(f"operator {op.title}: its input {slot.name!r} is missing\n{where}")


def _write_derived(
    writer: Writing,
    op: Operator,
    definition: OperatorDef,
    pair: Pair | None,
    target: Tree,
    options: dict[str, Tree],
) -> None:
    """A gradient operator that nobody wrote by hand: from a recording, or by recomputing."""
    forward = definition.forward
    assert forward is not None
    wanted = wanted_inputs(op, forward)
    body: Callable[..., Any]
    slopes = [slot.name + GRAD for slot in forward.outputs]
    if pair is not None:
        body = replayer(forward, wanted)
        arguments: dict[str, Tree] = {"": pair.name} | slots(writer, op, definition, slopes)
        options = {}
    else:
        body = recompute(forward, wanted)
        names = [slot.name for slot in forward.inputs]
        arguments = slots(writer, op, definition, names + slopes)
    function = writer.source.constant(op.type, writer.kernel(op, body))
    changes = _changes(forward, arguments)
    call = Call(target, function, tuple(arguments.values()), options, changes=changes, op=op)
    writer.source.add(call)
    if pair is not None:
        writer.source.add(Free((pair.name,)))
    else:
        call.acts = forward.effects & OUTSIDE


def write_batch(writer: Writing, ops: Sequence[Operator]) -> None:
    """Writes several operators of one type as one call with a list per slot."""
    definition = find(ops[0].type)
    assert definition is not None
    function = writer.source.constant(f"{definition.type}_many", updates_of(definition, ops))
    lists = {
        slot.name: [writer.local(op.block, var) for op in ops for var in op.input(slot.name)]
        for slot in definition.inputs
    }
    changes = _changes(definition, lists)
    options = keywords(ops[0], definition)
    writer.source.add(
        Call(None, function, tuple(lists.values()), options, changes=changes, op=ops[0])
    )


def keywords(
    op: Operator, definition: OperatorDef, unread: frozenset[str] = frozenset()
) -> dict[str, Tree]:
    """`axis=1`, `device=device`: attributes that differ from the default, and the context."""
    source = definition.forward if definition.body is None else definition
    assert source is not None
    given: dict[str, Tree] = {
        keyword: literal(op.attrs[name])
        for name, keyword in source.keywords.items()
        if name in op.attrs and op.attrs[name] != source.attributes[name].default
    }
    given |= {name: _CONTEXT[name] for name in sorted(source.context) if name in _CONTEXT}
    if "need" in source.context:
        given["need"] = tuple(
            any(name != EMPTY for name in op.output(slot.name)) and slot.name not in unread
            for slot in definition.outputs
        )
    if "counts" in source.context:
        given["counts"] = tuple(len(op.output(slot.name)) for slot in definition.outputs)
    return given


def slots(
    writer: Writing,
    op: Operator,
    definition: OperatorDef,
    names: Sequence[str],
    how: CallOptions | None = None,
) -> dict[str, Tree]:
    """Values of the given input slots; a copy where the body overwrites what is not its own, and
    the variable to reuse first in its slot."""
    own = dict(written_in_place(op, definition))
    overwritten = set(definition.mutates.values())
    many = {slot.name for slot in definition.inputs if slot.many}
    given: dict[str, Tree] = {}
    for slot in names:
        arguments = op.input(slot)
        if how is not None and how.reuse is not None and slot == how.reuse[0]:
            arguments.remove(how.reuse[1])
            arguments.insert(0, how.reuse[1])
        values: list[Tree] = [writer.local(op.block, name) for name in arguments]
        if slot in overwritten and own.get(slot) not in writer.variables.state:
            alone = how.alone if how is not None else ()
            values = [
                value if name in alone else copied(value)
                for name, value in zip(arguments, values, strict=True)
            ]
        given[slot] = (values or None) if slot in many else (values or [None])[0]
    place = facts_of(op.type).position
    if place in given and op in writer.places:
        given[place] = writer.places[op]
    return given


def _target(writer: Writing, op: Operator, definition: OperatorDef, levels: Iterable[Tree]) -> Tree:
    """What the body's results are assigned to: variables, then their LoDs."""
    parts: list[Tree] = []
    for slot in definition.outputs:
        untouched = slot.name in definition.untouched
        names: list[Tree] = [
            IGNORED if untouched else writer.local(op.block, name) or IGNORED
            for name in op.output(slot.name)
        ]
        parts.append((names or IGNORED) if slot.many else (names or [IGNORED])[0])
    parts = [*(parts or [IGNORED]), *levels]
    return tuple(parts) if len(parts) > 1 else parts[0]


def _note_outputs(writer: Writing, op: Operator, definition: OperatorDef) -> None:
    """Writes new persistable values back, and notes the freshness of the outputs."""
    in_place = {key for _, key in written_in_place(op, definition)}
    for slot in definition.outputs:
        shared = slot.name in definition.views
        for name in op.output(slot.name):
            key = key_of(op.block, name)
            if name == EMPTY or slot.name in definition.untouched:
                continue
            if key not in writer.variables.state:
                (writer.fresh.discard if shared else writer.fresh.add)(key)
            elif key not in in_place:
                local = writer.local(op.block, name)
                if shared:
                    writer.source.add(Bind(local, copied(local), op=op))
                writer.source.add(Store(writer.variables.cell(key), local, op=op))
