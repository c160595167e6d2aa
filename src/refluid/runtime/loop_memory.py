"""What loops and recurrent operators hold besides their variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from refluid.analysis.liveness import view_roots
from refluid.analysis.uses import Key, key_of
from refluid.ir.block import Block
from refluid.ir.names import EMPTY
from refluid.ir.operator import Operator
from refluid.ops.registry import facts_of, nested_of
from refluid.runtime.memory import EAGER
from refluid.runtime.shapes import Shapes
from refluid.runtime.tape import make_tape


def held_by_loop(op: Operator, key: Key, shapes: Shapes) -> int:
    """Bytes that the record of a loop's rounds takes, if `key` is the variable that holds it."""
    nested = nested_of(op)
    if nested is None or not nested.record or key[1] not in op.output(nested.record):
        return 0
    tape = make_tape(op)
    if not tape.wanted:
        return 0
    keys = set(tape.keys) - tape.shaped | set(tape.carried)
    for pair in tape.forward_pairs.values():
        forward = tape.block.ops[pair.forward]
        names = forward.input_arg_names + forward.output_arg_names
        keys |= {key_of(tape.block, name) for name in names if name != EMPTY}
    own = {one for one in keys if one[0] == tape.block.idx or one in tape.carried}
    roots = {view: root for view, (root, _) in view_roots(tape.block.ops).items()}
    memory = {roots.get(one, one) for one in own} - _entering(op, tape.block)
    # Unknown sizes of other loops count as those of all rounds together.
    rounds = shapes.rows(op.block, op.input(nested.stepped)[0]) if nested.stepped else 1
    return rounds * sum(shapes.bytes(one) for one in memory)


def _entering(op: Operator, block: Block) -> set[Key]:
    """Variables of the block that are parts of outer ones, or results of the round before."""
    names = op.input("inputs") + list(op.attrs.get("ex_states") or [])
    names += [
        name for one in block.ops if one.type == "read_from_array" for name in one.output("Out")
    ]
    return {key_of(block, name) for name in names} | {(block.idx, name) for name in names}


def inside(
    op: Operator, shapes: Shapes, kept: set[Key], most: Callable[..., tuple[int, int]]
) -> int:
    """Bytes that an operator needs while it runs. most: `footprint.most_at_once`.

    Of one round of a loop whose number of rounds isn't known only known sizes count.
    """
    nested = nested_of(op)
    stacked = nested.stacked if nested else ""
    one = shapes if stacked else shapes.known_alone()
    total = sum(most(block.ops, one, set(), kept, EAGER)[0] for block in op.sub_blocks())
    if stacked:
        total += _listed(op, op.output(stacked), shapes)
    layers = op.attrs.get("num_layers", 1)
    for slot, times in facts_of(op.type).working.items():
        names = op.input(slot) or op.output(slot)
        total += int(times * layers * _listed(op, names, shapes))
    return total


def _listed(op: Operator, names: Any, shapes: Shapes) -> int:
    """Bytes of the values of all time steps, which become one tensor at the end."""
    return sum(shapes.bytes(key_of(op.block, name)) for name in names if name != EMPTY)
