"""decay = scale(param) ; g2 = g + decay ; update(param, g2) -> update(param, g) {l2_decay}

The penalty that `L2Decay` adds to a gradient is computed where the update reads the parameter
anyhow: without a tensor as large as the parameter, and five passes over memory. The update may
stand in a branch, as it does in mixed precision, and what adds the penalty before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

from refluid.analysis.uses import BlockUses, Version, blocks_in_use, is_update, uses_in
from refluid.core.dtypes import VarType
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.registry import defined, facts_of
from refluid.passes.protocol import Report

_TAKEN = (VarType.FP32, VarType.FP64)


@dataclass(frozen=True)
class Decays:
    """kept: variables that stay computed. given: persistable gradients that nobody reads later."""

    kept: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()

    def removable(self, name: str, uses: BlockUses, branch: BlockUses | None = None) -> bool:
        """Whether nobody but operators of the block, or of a branch in it, reads what they write
        there."""
        var = uses.block.vars.get(name)
        hidden = var is not None and (name in self.given or not var.persistable)
        if not hidden or name in self.kept:
            return False
        return name not in uses.shared or (branch is not None and _theirs_alone(name, uses, branch))


def fold_weight_decay(program: Program, options: Decays) -> Report:
    """Gives each update that can add it the coefficient, in place."""
    report, gone = Report(), list[Operator]()
    found = [
        (op, _decay(op, _Arrival.of(op, position, uses), options))
        for uses in map(uses_in, blocks_in_use(program))
        for position, op in enumerate(uses.block.ops)
        if _takes_decay(op)
    ]
    for op, decay in found:
        if decay is not None:
            _take(op, decay)
            gone += decay.ops
            report.made.append(f"{op.type} with decay")
    for block in {one.block.idx: one.block for one in gone}.values():
        Editor(block).remove(*(one for one in gone if one.block is block))
    return report


def _take(update: Operator, found: _Decay) -> None:
    """Has an update add the decay itself."""
    (total,) = update.input("Grad")
    update.set_input("Grad", [found.gradient])
    update.set_attr(facts_of(update.type).decays, found.times)
    if found.branch is not None:
        given = [one for one in found.branch.input("Input") if one != total]
        more = [] if found.gradient in given else [found.gradient]
        found.branch.set_input("Input", [*given, *more])


class _Decay(NamedTuple):
    """So many times its parameter is added to a gradient, and the operators that do so."""

    gradient: str
    times: float
    ops: tuple[Operator, Operator]
    branch: Operator | None


class _Arrival(NamedTuple):
    """Where the gradient of an update comes to it: the update, or the branch in which it stands."""

    position: int
    uses: BlockUses
    branch: BlockUses | None = None

    @classmethod
    def of(cls, update: Operator, position: int, uses: BlockUses) -> _Arrival:
        around, (total,) = uses.block.parent, update.input("Grad")
        if around is None or total in uses.block.vars or total not in around.vars:
            return cls(position, uses)
        runs = [place for place, op in enumerate(around.ops) if uses.block in op.sub_blocks()]
        nested = defined(around.ops[runs[0]].type).nested if len(runs) == 1 else None
        names = (total, *update.input("Param"))
        untouched = uses.readers.get(total) == [position] and not any(
            place < position for name in names for place in uses.writers.get(name, ())
        )
        if nested is None or not nested.branches or not untouched:
            return cls(position, uses)
        return cls(runs[0], uses_in(around), uses)


def _theirs_alone(name: str, uses: BlockUses, branch: BlockUses) -> bool:
    """Whether no blocks but these two have it."""
    blocks = blocks_in_use(uses.block.program)
    others = (uses_in(one) for one in blocks if one not in (uses.block, branch.block))
    return not any(name in one.readers or name in one.writers for one in others)


def _takes_decay(op: Operator) -> bool:
    decays = facts_of(op.type).decays
    return bool(decays) and is_update(op) and not op.attrs.get(decays)


def _decay(op: Operator, place: _Arrival, options: Decays) -> _Decay | None:
    """What is in the gradient of an update, if nobody else sees it."""
    position, uses, branch = place
    ops, (param,), (total,) = uses.block.ops, op.input("Param"), op.input("Grad")
    added = _private_maker(uses.before(position, total), [position], uses, options, branch)
    if added is None or not facts_of(ops[added].type).adds or len(ops[added].input("X")) != 2:
        return None
    for gradient, decay in permutations(ops[added].input("X")):
        scaled = _private_maker(uses.before(added, decay), [added], uses, options)
        times = None if scaled is None else _times(ops[scaled], param)
        if scaled is None or times is None:
            continue
        stays = [uses.before(scaled, param) == uses.before(position, param)]
        if gradient != total:
            stays.append(uses.before(added, gradient) == uses.before(position, gradient))
            stays.append(branch is None or gradient not in branch.writers)
        if all(stays) and all(_is_dense(uses.block, name) for name in (param, gradient, total)):
            taken = None if branch is None else ops[position]
            return _Decay(gradient, times, (ops[scaled], ops[added]), taken)
    return None


def _private_maker(
    version: Version,
    users: list[int],
    uses: BlockUses,
    options: Decays,
    branch: BlockUses | None = None,
) -> int | None:
    """The position of what makes a version that only `users` see, or the branch's operators."""
    alone = options.removable(version.name, uses, branch) and uses.users(version) == users
    return uses.maker(version) if alone else None


def _times(op: Operator, name: str) -> float | None:
    """How many times that variable its result is; None where it is anything else."""
    times = facts_of(op.type).times
    return times(op) if times is not None and op.input_arg_names == [name] else None


def _is_dense(block: Block, name: str) -> bool:
    var = block.find_var_recursive(name)
    return var is not None and var.type == VarType.LOD_TENSOR and var.dtype in _TAKEN
