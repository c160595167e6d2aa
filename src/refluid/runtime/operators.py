"""The operators of a block, written into a plan one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from refluid.analysis.batching import batches
from refluid.analysis.liveness import last_uses, unread_slots, views_to_copy
from refluid.analysis.placeholders import placeholder, value_uses
from refluid.analysis.uses import Key, key_of, reads, writes
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.runtime.calls import CallOptions, write_batch, write_call
from refluid.runtime.instrument import watching
from refluid.runtime.ownership import Ownership
from refluid.runtime.pairing import Pair, pair_gradients
from refluid.runtime.releases import Releases
from refluid.runtime.steps import Call, Free
from refluid.runtime.writing import CONTROL, Writing


def write_operators(
    writer: Writing,
    block: Block,
    ops: Sequence[Operator],
    live: set[Key],
    outer_pairs: Mapping[int, Pair] | None = None,
) -> None:
    """Writes operators in order, and frees what none of the later ones uses.

    live: what is used after them. outer_pairs: of operators in a loop, with those of its gradient.
    """
    memory = writer.request.memory
    groups = batches(ops)
    last = last_uses(ops, groups)
    copies = views_to_copy(ops, last, live, repeated=outer_pairs is not None)
    pairs = pair_gradients(ops) | dict(outer_pairs or {})
    outside = live | writer.variables.fed | held(ops)
    valued = value_uses(ops, last) if memory.frees else {}
    mine = live | writer.variables.fed
    owned = Ownership(ops, last | valued, mine, pairs, captured(ops), in_place=memory.in_place)
    releases = Releases(block, ops, last, live, owned, memory)
    placeholders = _by_position(block, valued, outside)
    batched = {index for group in groups.values() for index in group}
    for position, op in enumerate(ops):
        if op in writer.idle or (position in batched and position not in groups):
            continue
        together = [ops[index] for index in groups.get(position, [position])]
        reuse: tuple[str, str] | None = None
        _drop(writer, releases.before(position), at_once=True)
        with watching(writer, together):
            if position in groups:
                write_batch(writer, together)
            elif op.type in CONTROL:
                CONTROL[op.type](writer, op)
            else:
                reuse = owned.reusable(op, position)
                unread = unread_slots(op, position, last, live) | writer.unread.get(op, frozenset())
                alone = owned.alone(op, position)
                how = CallOptions(pairs.get(position), reuse, position in copies, unread, alone)
                write_call(writer, op, how)
        for key in placeholders.get(position, ()):
            name, shape = (
                writer.variables.names[key],
                writer.source.constant("placeholder", placeholder),
            )
            writer.source.add(Call(name, shape, (name,)))
        dead = releases.after(position)
        overwritten = {key_of(op.block, reuse[1])} & dead if reuse else set()
        _drop(writer, dead - overwritten)
        _drop(writer, overwritten, at_once=True)


def _drop(writer: Writing, keys: set[Key], *, at_once: bool = False) -> None:
    """Gives values up: their memory is free, or waits with that of others."""
    names = writer.variables.names
    dead = tuple(sorted(names[key] for key in keys if key in names))
    if dead:
        writer.source.add(Free(dead, None if at_once else writer.garbage))


def _by_position(
    block: Block, uses: Mapping[Key, int], live: set[Key]
) -> defaultdict[int, list[Key]]:
    """The block's own variables whose value nobody needs after a position."""
    found: defaultdict[int, list[Key]] = defaultdict(list)
    for key in sorted(uses):
        if key[0] == block.idx and key not in live:
            found[uses[key]].append(key)
    return found


def held(ops: Sequence[Operator]) -> set[Key]:
    """Variables whose memory an array or a loop may hold on to."""
    return set(captured(ops))


def captured(ops: Sequence[Operator]) -> dict[Key, int]:
    """The same, with the position of the first operator that may."""
    return {
        key: position
        for position, op in reversed(list(enumerate(ops)))
        if op.type in CONTROL
        for key in reads(op) | writes(op)
    }
