"""Each trainer owns a share of the parameters' updates, of gradients, and of parameters.

..., w@GRAD = mul_grad(...)        ->  ..., w@GRAD = mul_grad(...)
momentum(w, w@GRAD, velocity)          w@GRAD = shard_reduce(w@GRAD)     at its owner
                                       momentum(w, w@GRAD, velocity)     at its owner
                                       shard_spread(w)

Stage 1: the optimizer's state has owners; gradients are summed at all. Stage 2: gradients are
summed at their owners only, where nothing but updates needs them. Stage 3: parameters have owners
too, and the others get them for as long as they need them (`sharded_parameters`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from refluid.build import apply
from refluid.core.dtypes import VarType
from refluid.ir.attributes import ROLE, OpRole
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.passes.data_parallel import (
    Exchange,
    Parallel,
    balance,
    buckets,
    data_parallel,
    gradient_block,
    insert_exchange,
    parameter_gradients,
    ready_positions,
    scale_loss,
)
from refluid.passes.ownership import mixes_gradients, needed_by, owners_of
from refluid.passes.sharded_parameters import SegmentCut, gather_parameters

if TYPE_CHECKING:
    from refluid.passes.handing_on import HandingOn


@dataclass(frozen=True)
class Sharding(Parallel):
    """share: the number of this trainer's, of `shares`; stage: 1 to 3.

    segment_bytes: so many bytes of parameters come at a time in stage 3. anchors: operators with
    these outputs begin a new segment. kept: variables that are fed or fetched.
    """

    share: int = 0
    shares: int = 1
    stage: int = 1
    segment_bytes: int = 0
    anchors: tuple[str, ...] = ()
    kept: frozenset[str] = frozenset()


@dataclass
class Shards(Exchange):
    """at_owners: whether gradients are summed at their owners only."""

    at_owners: bool = False


def shard(program: Program, sharding: Sharding) -> Shards:
    """Makes the program of one trainer, in place."""
    from refluid.passes.handing_on import handings_on  # few programs are sharded

    block = gradient_block(program)
    owners = balance(block, sharding.shares)
    pairs = parameter_gradients(block)
    if not pairs:
        return Shards(changed=False)
    if not owners:  # nothing is updated: all have all gradients
        whole = data_parallel(program, sharding)
        return Shards(changed=True, gradients=whole.gradients, exchanges=whole.exchanges)
    if sharding.loss is not None:
        scale_loss(program.global_block(), sharding)
    state = owners_of(program, sharding.shares)
    gradients = {grad: owners[param] for param, grad in pairs}
    ready = ready_positions(block, list(gradients))
    groups = buckets(block, ready, sharding)
    last = {name: position for position, name in ready}
    at_owners = sharding.stage > 1 and not mixes_gradients(block, gradients, last, sharding.kept)
    for position, names in sorted(groups, key=lambda group: group[0], reverse=True):
        dense = all(block.vars[one].type == VarType.LOD_TENSOR for one in names)
        if at_owners and dense:
            _reduce(block, position + 1, names, [gradients[one] for one in names], sharding.share)
        else:
            insert_exchange(block, position + 1, names)
    needed = needed_by(block, state, sharding.kept)
    if sharding.stage >= 3:
        segments = SegmentCut(sharding.segment_bytes, sharding.anchors)
        gather_parameters(program, owners, sharding.share, segments, needed)
    handed = handings_on(block, apart=needed)
    _leave_to_others(program, state, sharding.share, needed)
    if sharding.stage < 3:
        for one in handed:
            _spread(block, one, owners)
    return Shards(changed=True, gradients=len(ready), exchanges=len(groups), at_owners=at_owners)


def _reduce(block: Block, position: int, names: list[str], owners: list[int], share: int) -> None:
    given = [block.var(name) for name in names]
    own = [one for one, owner in zip(given, owners, strict=True) if owner == share]
    attrs = {"owners": owners, ROLE: OpRole.BACKWARD}
    apply("shard_reduce", {"X": given}, {"Out": own}, attrs, block=block, index=position)


def _spread(block: Block, handed: HandingOn, owners: dict[str, int]) -> None:
    """Sends updated parameters to those who don't own them."""
    names = sorted({op.input("Param")[0] for op in handed.made} & set(owners))
    params = [block.var_recursive(name) for name in names]
    attrs = {"owners": [owners[name] for name in names], ROLE: OpRole.OPTIMIZE}
    at = handed.position(block)
    apply("shard_spread", {"X": params}, {"Out": params}, attrs, block=block, index=at)


def _leave_to_others(
    program: Program,
    state: Mapping[str, int],
    share: int,
    needed: Mapping[Operator, frozenset[int]],
) -> None:
    """Leaves out updates of what others own, and what serves these alone."""
    for block in program.blocks:
        Editor(block).remove(*(op for op in block.ops if share not in needed.get(op, {share})))
    others = {name for name, owner in state.items() if owner != share}
    # Inner blocks first: what operators in them hand on is used by those around them.
    inside_out = (op for block in reversed(program.blocks) for op in block.ops)
    for op in (op for op in inside_out if op.has_sub_blocks):
        used = {name for one in op.sub_blocks() for name in _names(one)}
        for slots, change in ((op.inputs, op.set_input), (op.outputs, op.set_output)):
            for slot, names in list(slots.items()):
                left = [name for name in names if name in used or name not in others]
                if left != names:
                    change(slot, left)


def _names(block: Block) -> set[str]:
    found = {name for op in block.ops for name in (*op.input_arg_names, *op.output_arg_names)}
    return found.union(*(_names(one) for op in block.ops for one in op.sub_blocks()))
