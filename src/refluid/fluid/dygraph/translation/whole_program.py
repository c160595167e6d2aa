"""A function's program, gradients of what it takes, and an optimizer's updates, as one program."""

from __future__ import annotations

from collections.abc import Mapping

from refluid.build import Blocks, apply, op, using
from refluid.fluid.backward import gradients
from refluid.ir.block import Block
from refluid.ir.defaults import program_guard
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.ops.effects import Effect
from refluid.ops.registry import facts_of

_OWN = "@UPDATE"  # ends the names of what updates compute in between


def acts_outside(program: Program) -> bool:
    """Whether others see when its operators run: they exchange, print, or call Python."""
    effects = (facts_of(one.type).effects for block in program.blocks for one in block.ops)
    return any(effect & (Effect.COMM | Effect.HOST) for effect in effects)


def whole_program(
    program: Program,
    result: str,
    taken: Mapping[str, bool],
    updates: Program,
    names: Mapping[str, str],
) -> Program | None:
    """`program` with the gradients of a result and the operators of `updates`.

    taken: what the program takes, and whether it gets a gradient. names: of a parameter in
    `updates` -> in `program`. None where that can't be one program.
    """
    if len(updates.blocks) > 1 or acts_outside(program) or acts_outside(updates):
        return None
    made = program.clone()
    block, wanted = made.global_block(), [name for name, takes in taken.items() if takes]
    for name, takes in taken.items():
        block.var(name).stop_gradient = not takes
    with program_guard(made, Program()), using(Blocks()):
        target = block.var(result)
        found = gradients([target], [block.var(name) for name in wanted], [_ones_like(target)])
        slopes = {
            name: slope.name for name, slope in zip(wanted, found, strict=True) if slope is not None
        }
        if slopes.keys() != set(names.values()):
            return None
        renamed = dict(names) | {own + GRAD: slopes[name] for own, name in names.items()}
        if not _add(updates.global_block(), block, renamed):
            return None
    return made


def _ones_like(target: Variable) -> Variable | None:
    """A constant of a variable's sizes; None where they aren't known."""
    if not all(size > 0 for size in target.shape):
        return None
    attrs = {"shape": [*target.shape], "dtype": int(target.dtype), "value": 1.0}
    return op("fill_constant", None, attrs, dtype=target.dtype, stop_gradient=True)


def _add(updates: Block, block: Block, renamed: dict[str, str]) -> bool:
    """Appends operators with some of their variables renamed; False where names are the same."""
    for var in updates.vars.values():
        if var.name in renamed:
            continue
        if not var.persistable:
            renamed[var.name] = var.name + _OWN
        if block.has_var(renamed.get(var.name, var.name)):
            return False
        block.create_var(
            name=renamed.get(var.name, var.name),
            shape=var.shape,
            dtype=var.dtype,
            type=var.type,
            persistable=var.persistable,
            stop_gradient=True,
        )
    for update in updates.ops:
        inputs, outputs = (
            {
                slot: [name if name == EMPTY else renamed.get(name, name) for name in several]
                for slot, several in given.items()
            }
            for given in (update.inputs, update.outputs)
        )
        apply(update.type, inputs, outputs, update.attrs, block=block)
    return True
