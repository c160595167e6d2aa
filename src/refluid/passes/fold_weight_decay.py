"""decay = scale(param) ; g2 = g + decay ; update(param, g2) -> update(param, g) {l2_decay}

The penalty that `L2Decay` adds to a gradient is computed where the update reads the parameter
anyhow: without a tensor as large as the parameter, and five passes over memory.
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
from refluid.ops.registry import facts_of
from refluid.passes.protocol import Report

_TAKEN = (VarType.FP32, VarType.FP64)


@dataclass(frozen=True)
class Decays:
    """kept: variables that stay computed. given: persistable gradients that nobody reads later."""

    kept: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()

    def removable(self, name: str, uses: BlockUses) -> bool:
        """Whether nobody but operators of the block reads what they write there."""
        var = uses.block.vars.get(name)
        hidden = var is not None and (name in self.given or not var.persistable)
        return hidden and name not in self.kept | uses.shared


def fold_weight_decay(program: Program, options: Decays) -> Report:
    """Gives each update that can add it the coefficient, in place."""
    report = Report()
    for block in blocks_in_use(program):
        uses, gone = uses_in(block), list[Operator]()
        for position, op in enumerate(block.ops):
            if _takes_decay(op):
                found = _decay(op, position, uses, options)
                if found is not None:
                    op.set_input("Grad", [found.gradient])
                    op.set_attr(facts_of(op.type).decays, found.times)
                    gone += found.ops
                    report.made.append(f"{op.type} with decay")
        if gone:
            Editor(block).remove(*gone)
    return report


class _Decay(NamedTuple):
    """So many times its parameter is added to a gradient, and the operators that do so."""

    gradient: str
    times: float
    ops: tuple[Operator, Operator]


def _takes_decay(op: Operator) -> bool:
    decays = facts_of(op.type).decays
    return bool(decays) and is_update(op) and not op.attrs.get(decays)


def _decay(op: Operator, position: int, uses: BlockUses, options: Decays) -> _Decay | None:
    """What is in the gradient of an update, if nobody else sees it."""
    ops, (param,), (total,) = uses.block.ops, op.input("Param"), op.input("Grad")
    added = _private_maker(uses.before(position, total), [position], uses, options)
    if added is None or not facts_of(ops[added].type).adds or len(ops[added].input("X")) != 2:
        return None
    for gradient, decay in permutations(ops[added].input("X")):
        scaled = _private_maker(uses.before(added, decay), [added], uses, options)
        times = None if scaled is None else _times(ops[scaled], param)
        if scaled is None or times is None:
            continue
        stays = uses.before(scaled, param) == uses.before(position, param) and (
            gradient == total or uses.before(added, gradient) == uses.before(position, gradient)
        )
        if stays and all(_is_dense(uses.block, name) for name in (param, gradient, total)):
            return _Decay(gradient, times, (ops[scaled], ops[added]))
    return None


def _private_maker(
    version: Version, users: list[int], uses: BlockUses, options: Decays
) -> int | None:
    """The position of what makes a version that only `users` see."""
    alone = options.removable(version.name, uses) and uses.users(version) == users
    return uses.maker(version) if alone else None


def _times(op: Operator, name: str) -> float | None:
    """How many times that variable its result is; None where it is anything else."""
    times = facts_of(op.type).times
    return times(op) if times is not None and op.input_arg_names == [name] else None


def _is_dense(block: Block, name: str) -> bool:
    var = block.find_var_recursive(name)
    return var is not None and var.type == VarType.LOD_TENSOR and var.dtype in _TAKEN
