"""Kinds of faults: each changes a program at random, and says what it did or that it can't."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.program import Program

Plant = Callable[[Program, Random], str]
# Attributes that say nothing of what is computed.
SILENT = ("op_", "use_", "is_test", "force_", "mkldnn", "data_format", "x_data_format")
SILENT += ("y_data_format", "workspace", "epmap", "table_names", "trainer_id", "remote_prefetch")
SILENT += ("dtype", "in_dtype", "out_dtype", "seed", "fix_seed", "min_row_size", "num_threads")
WEIGHT_DECAYS = ("weight_decay", "lars_weight_decay", "regularization_coeff")


def updates(program: Program) -> list[tuple[Block, int, Operator]]:
    """Every operator that updates a parameter by a gradient, with its block and place."""
    return [
        (block, place, op)
        for block in program.blocks
        for place, op in enumerate(block.ops)
        if op.input("Param") and op.input("Grad")
    ]


def scale_gradient(program: Program, draw: Random) -> str:
    """One gradient is 1% too large."""
    found = updates(program)
    if not found:
        return ""
    block, place, op = draw.choice(found)
    name = op.input("Grad")[0]
    attrs = {"scale": 1.01, "bias": 0.0, "bias_after_scale": True}
    block._insert_op(place, "scale", {"X": [name]}, {"Out": [name]}, attrs)
    return f"{name} x 1.01"


def skip_update(program: Program, draw: Random) -> str:
    """One parameter is not updated."""
    found = updates(program)
    if not found:
        return ""
    block, place, op = draw.choice(found)
    block._remove_op(place)
    return f"{op.input('Param')[0]} not updated"


def drop_decay(program: Program, draw: Random) -> str:
    """One parameter's weight decay is left out."""
    found = [*_decay_terms(program), *_decay_attributes(program)]
    if not found:
        return ""
    name, drop = draw.choice(found)
    drop()
    return f"decay of {name} dropped"


def _decay_terms(program: Program) -> Iterator[tuple[str, Callable[[], None]]]:
    """sum(gradient, coefficient * parameter) -> sum(gradient)."""
    names = {op.input("Param")[0] for _, _, op in updates(program)}
    for block in program.blocks:
        decays: dict[str, str] = {}
        for op in block.ops:
            if op.type == "scale" and op.input("X")[0] in names:
                decays[op.output("Out")[0]] = op.input("X")[0]
            terms = [one for one in op.input("X") if one in decays] if op.type == "sum" else []
            for term in terms:

                def drop(op: Operator = op, term: str = term) -> None:
                    op.set_input("X", [one for one in op.input("X") if one != term])

                yield decays[term], drop


def _decay_attributes(program: Program) -> Iterator[tuple[str, Callable[[], None]]]:
    for _, _, op in updates(program):
        for attribute in WEIGHT_DECAYS:
            if op.attrs.get(attribute):

                def drop(op: Operator = op, attribute: str = attribute) -> None:
                    op.set_attr(attribute, 0.0)

                yield op.input("Param")[0], drop


def change_attribute(program: Program, draw: Random) -> str:
    """One attribute of one operator has another value."""
    found = [
        (op, name)
        for block in program.blocks
        for op in block.ops
        for name, value in op.attrs.items()
        if isinstance(value, bool | int | float) and not name.startswith(SILENT)
    ]
    if not found:
        return ""
    op, name = draw.choice(found)
    old = op.attrs[name]
    new = not old if isinstance(old, bool) else 2 * old if old else 1
    op.set_attr(name, new)
    return f"{op.type}: {name} {old} -> {new}"


KINDS: dict[str, Plant] = {
    "gradient": scale_gradient,
    "update": skip_update,
    "decay": drop_decay,
    "attribute": change_attribute,
}
