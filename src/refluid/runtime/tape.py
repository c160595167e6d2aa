"""What a block that runs in a loop or a branch must keep for its gradient block.

Fluid keeps the scope of every run of the block. A plan keeps one tuple per run: the values that
the gradient block reads, and autograd's recordings of the operators that it differentiates.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from refluid.analysis.placeholders import placeholder, values_read
from refluid.analysis.uses import Key, key_of, reads, writes
from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.ir.block import Block
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.runtime.lods import Lods
from refluid.runtime.pairing import Pair, pair_gradients
from refluid.runtime.source import PlanSource
from refluid.runtime.trees import Name, Tree, called
from refluid.runtime.variables import Variables


@dataclass
class Tape:
    """One block's record: the variables kept, and the pairs of both blocks by position.

    carried: variables of outer blocks that the block changes, kept as they were before each run.
    shaped: those of `keys` of which the gradient block needs the shape alone.
    """

    block: Block
    keys: list[Key] = field(default_factory=list)
    carried: list[Key] = field(default_factory=list)
    forward_pairs: dict[int, Pair] = field(default_factory=dict)
    gradient_pairs: dict[int, Pair] = field(default_factory=dict)
    wanted: bool = False
    shaped: frozenset[Key] = frozenset()

    def kept(self, source: PlanSource, variables: Variables, lods: Lods) -> tuple[Tree, ...]:
        """What is kept of a run of the forward block."""
        shape = source.constant("placeholder", placeholder) if self.shaped else None
        names = variables.names
        kept: list[Tree] = [
            called(shape, names[key]) if key in self.shaped else names[key]
            for key in self.keys
            if key in names
        ]
        kept += [self.before(variables, key) for key in self.carried]
        return (*kept, *self._shared(lods))

    def targets(self, variables: Variables, lods: Lods) -> tuple[Name, ...]:
        """The local variables that the gradient block finds it in."""
        kept = [variables.names[key] for key in self.keys if key in variables.names]
        kept += [variables.names[key] for key in self.carried]
        return (*kept, *self._shared(lods))

    def before(self, variables: Variables, key: Key) -> Name:
        """Name of the value that an outer variable had before the run."""
        return Name(f"{variables.names[key]}_before")

    def _shared(self, lods: Lods) -> list[Name]:
        found = {name for key in self.keys if isinstance(name := lods.of(key), Name)}
        return sorted(found) + sorted({pair.name for pair in self.forward_pairs.values()})


def make_tape(op: Operator) -> Tape:
    """What the sub-block of a control operator keeps; nothing where nobody differentiates it."""
    block = op.attr("sub_block")
    gradient = _gradient_block(op, block)
    if gradient is None:
        return Tape(block)
    count = len(block.ops)
    pairs = {
        position: pair
        for position, pair in pair_gradients([*block.ops, *gradient.ops]).items()
        if pair.forward < count <= pair.gradient
    }
    forward = {position: pair for position, pair in pairs.items() if position < count}
    backward = {position - count: pair for position, pair in pairs.items() if position >= count}
    read = set().union(
        *(_needed(one, backward.get(position)) for position, one in enumerate(gradient.ops))
    )
    valued = set().union(
        *(
            _needed(one, backward[position]) if position in backward else values_read(one)
            for position, one in enumerate(gradient.ops)
        )
    )
    changed = set().union(*(writes(one) for one in block.ops))
    changed -= set().union(*(writes(one) for one in gradient.ops))
    return Tape(
        block,
        sorted(key for key in read if key[0] == block.idx),
        sorted(key for key in read & changed if key[0] != block.idx and not _is_array(block, key)),
        forward,
        backward,
        True,
        frozenset(read - valued),
    )


def _gradient_block(op: Operator, block: Block) -> Block | None:
    """The sub-block of the operator's gradient operator.

    EnforceNotMet where it has several: what is kept of a run goes to the one that takes it.
    """
    kind = op.type + "_grad"
    found = [
        sub_block
        for other in block.program.blocks_run()
        for one in other.ops
        if one.type == kind and (sub_block := one.attr("sub_block")).forward_block_idx == block.idx
    ]
    if len(found) > 1:
        raise EnforceNotMet(
            f"{op.title} is differentiated {len(found)} times in one program, by fluid.gradients "
            "or minimize, and can be once: add what is differentiated to one loss, or build the "
            f"network twice with the same parameters. It was made here:\n{op.made_at}\n"
            f"  [operator < {op.title} > error]"
        )
    return found[0] if found else None


def _needed(op: Operator, pair: Pair | None) -> AbstractSet[Key]:
    """Variables whose values a gradient block's operator reads."""
    if pair is None:
        return reads(op)
    return {
        key_of(op.block, name)
        for slot, names in op.inputs.items()
        if slot.endswith(GRAD)
        for name in names
    }


def _is_array(block: Block, key: Key) -> bool:
    var = block.program.blocks[key[0]].vars.get(key[1])
    return var is not None and var.type == VarType.LOD_TENSOR_ARRAY
