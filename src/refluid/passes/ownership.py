"""Which trainer owns what of a program's state, and which gradients nobody else needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from refluid.analysis.uses import is_update, names_read
from refluid.ir.attributes import OpRole
from refluid.ir.block import Block
from refluid.ir.names import EMPTY
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.effects import OUTSIDE
from refluid.ops.registry import find
from refluid.passes.data_parallel import balance, gradient_block, updates


def owners_of(program: Program, shares: int) -> dict[str, int]:
    """The share to which each parameter belongs, and what its optimizer keeps beside it."""
    owners = balance(gradient_block(program), shares)
    found = dict(owners)
    for op in updates(program):
        (param, *_) = op.input("Param")
        if param in owners:
            found |= dict.fromkeys(_kept_by(op), owners[param])
    return found


def _kept_by(op: Operator) -> set[str]:
    """What outlives a run and is written by an update, but for the parameter."""
    block = op.block
    written = set(op.output_arg_names) - set(op.input("Param"))
    return {name for name in written if block.var_recursive(name).persistable}


def needed_by(
    block: Block, state: Mapping[str, int], kept: Collection[str]
) -> dict[Operator, frozenset[int]]:
    """Operators of the optimizer that only some owners need, and which: updates, and what serves
    these alone. All need the others.

    state: the owner of each parameter and of what is kept beside it. kept: fed or fetched.
    block: where gradients are exchanged. Updates may be in another one, as those of mixed
    precision are, which are made where all gradients are finite.
    """
    updating = {op.block for op in updates(block.program)}
    found: dict[Operator, frozenset[int]] = {}
    for one in block.program.blocks:
        if one is block or one in updating:
            found |= _needed_in(one, state, kept)
    return found


def _needed_in(
    block: Block, state: Mapping[str, int], kept: Collection[str]
) -> dict[Operator, frozenset[int]]:
    found: dict[Operator, frozenset[int]] = {}
    readers: dict[str, list[frozenset[int] | None]] = {}
    everyone = {name for op in _beyond(block) for name in op.input_arg_names} | set(kept)
    for op in reversed(block.ops):
        needed = _needed(block, op, state, readers, everyone)
        if needed is not None:
            found[op] = needed
        for name in names_read(op):
            readers.setdefault(name, []).append(needed)
    return found


def _beyond(block: Block) -> list[Operator]:
    """Operators of other blocks."""
    return [op for one in block.program.blocks if one is not block for op in one.ops]


def _needed(
    block: Block,
    op: Operator,
    state: Mapping[str, int],
    readers: Mapping[str, list[frozenset[int] | None]],
    everyone: Collection[str],
) -> frozenset[int] | None:
    """Who needs an operator; None for all."""
    if is_update(op):
        owner = state.get(op.input("Param")[0])
        return None if owner is None else frozenset([owner])
    definition = find(op.type)
    if not op.role & OpRole.OPTIMIZE or op.has_sub_blocks or definition is None:
        return None
    if definition.effects & OUTSIDE:
        return None
    found: set[int] = set()
    for name in op.output_arg_names:
        if name == EMPTY:
            continue
        if name in state:
            found.add(state[name])
        elif name in everyone or not kept_apart(block, [name]):
            return None
        for one in readers.get(name, ()):
            if one is None:
                return None
            found |= one
    return frozenset(found)


def mixes_gradients(
    block: Block, gradients: Mapping[str, int], ready: Mapping[str, int], kept: Collection[str]
) -> bool:
    """Whether some gradient is needed for more than the update of its own parameter.

    So are those that a global norm, or a check for infinite values, is taken of. gradients: the
    owner of each; ready: after which position it is what is exchanged.
    """
    owners = owners_by_parameter(block, gradients)
    derived: dict[str, frozenset[int]] = {
        name: frozenset([owner]) for name, owner in gradients.items()
    }
    for position, op in enumerate(block.ops):
        names = [one for one in op.input_arg_names if position > ready.get(one, -1)]
        found = frozenset[int]().union(*(derived.get(one, frozenset()) for one in names))
        if not found:
            continue
        if "Param" in op.inputs:
            if found != {owners.get(op.input("Param")[0])}:
                return True
            continue
        if len(found) > 1 or op.has_sub_blocks or not kept_apart(block, op.output_arg_names):
            return True
        derived |= dict.fromkeys(op.output_arg_names, found)
    return any(name in derived for name in kept)


def owners_by_parameter(block: Block, gradients: Mapping[str, int]) -> dict[str, int]:
    """The owner of each parameter, by those of gradients."""
    found = {}
    for op in updates(block.program):
        for name in op.input("Grad"):
            if name in gradients:
                found[op.input("Param")[0]] = gradients[name]
    return found | {
        param: gradients[grad]
        for one in block.ops
        for param, grad in one.role_pairs
        if grad in gradients
    }


def kept_apart(block: Block, names: Iterable[str]) -> bool:
    """Whether none of these outlives a run."""
    found = (block.find_var_recursive(name) for name in names)
    return not any(one is not None and one.persistable for one in found)
