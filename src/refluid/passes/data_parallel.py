"""Data parallelism: loss gradients scaled, parameter gradients summed over all replicas.

loss@GRAD = fill_constant(1)      ->  fill_constant(1 / replicas)
..., w@GRAD = mul_grad(...)       ->  ..., w@GRAD = mul_grad(...)
                                      w@GRAD = allreduce(w@GRAD)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from refluid.analysis.uses import is_update, names_read
from refluid.core.dtypes import VarType, to_numpy
from refluid.ir.attributes import ROLE, OpRole
from refluid.ir.block import Block
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.passes.chosen_gradients import exchange_chosen
from refluid.passes.protocol import Report

_BACKWARD, _OPTIMIZE, _LOSS = OpRole.BACKWARD, OpRole.OPTIMIZE, OpRole.LOSS


class GradientScaleStrategy(IntEnum):
    """What `loss@GRAD` is: 1 / number of replicas, 1, or what is fed."""

    CoeffNumDevice = 0
    One = 1
    Customized = 2


@dataclass(frozen=True)
class Parallel:
    """What replica `rank` of so many is asked for.

    owned: in Reduce mode each replica updates the parameters that it owns only.
    broadcasts: each replica has parameters of its own, which their owner sends to the others.
    fuse_broadcasts: all that one owner sends at once.
    bucket_bytes: gradients are exchanged together once they are so many bytes; 0: one by one.
    bucket_count: or so many of them; 0 for any number.
    """

    replicas: int
    loss: str | None
    rank: int = 0
    scale: GradientScaleStrategy = GradientScaleStrategy.CoeffNumDevice
    bucket_bytes: int = 0
    bucket_count: int = 0
    owned: bool = False
    broadcasts: bool = False
    fuse_broadcasts: bool = True


@dataclass
class Exchange(Report):
    """How many gradients are exchanged, and by how many exchanges."""

    gradients: int = 0
    exchanges: int = 0


def data_parallel(program: Program, parallel: Parallel) -> Exchange:
    """Makes the program of one replica, in place."""
    if parallel.loss is not None:
        scale_loss(program.global_block(), parallel)
    block = gradient_block(program)
    gradients = parameter_gradients(block)
    chosen = exchange_chosen(block, dict(gradients), _mean(parallel))
    ready = ready_positions(block, [grad for _, grad in gradients if grad not in chosen])
    groups = buckets(block, ready, parallel)
    for position, names in sorted(groups, key=lambda group: group[0], reverse=True):
        insert_exchange(block, position + 1, names)
    if parallel.owned:
        _keep_own_updates(block, parallel)
    return Exchange(
        changed=True, gradients=len(ready) + len(chosen), exchanges=len(groups) + len(chosen)
    )


def _mean(parallel: Parallel) -> int:
    """By how many the loss's gradient was divided."""
    divided = parallel.scale == GradientScaleStrategy.CoeffNumDevice and parallel.loss is not None
    return parallel.replicas if divided else 1


def gradient_block(program: Program) -> Block:
    """The block whose gradients replicas exchange: with merged gradients that of the update."""
    merged = (block for block in program.blocks[1:] if parameter_gradients(block))
    found = program.global_block()
    return found if parameter_gradients(found) else next(merged, found)


def parameter_gradients(block: Block) -> list[tuple[str, str]]:
    """(parameter, gradient) as the backward operators name them: a parameter's of each loss."""
    pairs: dict[tuple[str, str], None] = {}
    for op in block.ops:
        if op.role & _BACKWARD:
            pairs |= dict.fromkeys(op.role_pairs)
    return list(pairs)


def scale_loss(block: Block, parallel: Parallel) -> None:
    """Of every loss that a program minimizes; what is fed stands for that of `loss` alone."""
    starts = _loss_gradients(block, f"{parallel.loss}{GRAD}")
    if parallel.scale == GradientScaleStrategy.Customized:
        for op in starts[:1]:
            (name,) = op.output("Out")
            block._remove_op(op.idx)
            block.vars[name].need_check_feed = False
    elif parallel.scale == GradientScaleStrategy.CoeffNumDevice:
        for op in starts:
            op._set_attr("value", float(op.attr("value")) / parallel.replicas)


def _loss_gradients(block: Block, name: str) -> list[Operator]:
    """What starts backward passes: of the loss, then of others, or of a scaled loss."""
    starts = [op for op in block.ops if op.role == _BACKWARD | _LOSS]
    named = [op for op in starts if name in op.output_arg_names]
    return named + [op for op in starts if op.type == "fill_constant" and op not in named]


def ready_positions(block: Block, gradients: Sequence[str]) -> list[tuple[int, str]]:
    """(position of the last backward operator that writes it, gradient), in that order."""
    wanted = set(gradients)
    last: dict[str, int] = {}
    for position, op in enumerate(block.ops):
        if op.role & _BACKWARD:
            last |= dict.fromkeys(wanted & set(op.output_arg_names), position)
    return sorted((position, name) for name, position in last.items())


def buckets(
    block: Block, ready: Sequence[tuple[int, str]], parallel: Parallel
) -> list[tuple[int, list[str]]]:
    """(position after which to exchange, gradients): of one type, until they fill a bucket.

    None waits for others that are ready only after something uses it, as an optimizer before them.
    """
    limit, count = parallel.bucket_bytes, parallel.bucket_count or len(ready)
    due = _first_uses(block, {name: position for position, name in ready})
    groups: list[tuple[int, list[str]]] = []
    # By element type the number of the bucket that isn't full yet, and its bytes.
    begun: dict[VarType, tuple[int, int]] = {}
    for position, name in ready:
        var = block.vars[name]
        size = bytes_of(var)
        number, filled = begun.pop(var.dtype, (-1, 0)) if size else (-1, 0)
        if number >= 0 and min(due[one] for one in groups[number][1]) <= position:
            number, filled = -1, 0
        if number < 0:
            number = len(groups)
            groups.append((position, []))
        names = [*groups[number][1], name]
        groups[number] = position, names
        filled += size
        if size and filled < limit and len(names) < count:
            begun[var.dtype] = number, filled
    return groups


def _first_uses(block: Block, ready: Mapping[str, int]) -> dict[str, int]:
    """Where each gradient is read first, once it is ready."""
    found = dict.fromkeys(ready, len(block.ops))
    for position, op in reversed(list(enumerate(block.ops))):
        for name in names_read(op):
            if ready.get(name, position) < position:
                found[name] = position
    return found


def bytes_of(var: Variable) -> int:
    """Size of a dense gradient; 0 where it is sparse or not known."""
    if var.type != VarType.LOD_TENSOR or not var.has_description() or min(var.shape, default=1) < 0:
        return 0
    count = 1
    for size in var.shape:
        count *= size
    return int(count * (2 if var.dtype == VarType.BF16 else to_numpy(var.dtype).itemsize))


def insert_exchange(block: Block, position: int, names: list[str]) -> None:
    block._insert_op(
        position,
        type="allreduce" if len(names) == 1 else "fused_all_reduce",
        inputs={"X": names},
        outputs={"Out": names},
        attrs={ROLE: _BACKWARD},
    )


def updates(program: Program) -> Iterator[Operator]:
    """The operators that update a parameter, wherever they are."""
    for block in program.blocks:
        yield from (op for op in block.ops if is_update(op))


def _keep_own_updates(block: Block, parallel: Parallel) -> None:
    """Leaves out the updates of parameters that other replicas own, and waits for theirs."""
    from refluid.passes.handing_on import handings_on  # few programs are in Reduce mode

    owners, rank = balance(block, parallel.replicas), parallel.rank
    handed = handings_on(block)
    for op in list(updates(block.program)):
        if owners.get(op.input("Param")[0], rank) != rank:
            op.block._remove_op(op.idx)
    role = {ROLE: _OPTIMIZE}
    if not parallel.broadcasts:
        block.insert_op(len(block.ops), type="replica_barrier", inputs={}, outputs={}, attrs=role)
        return
    for one in handed:
        for owner, names in _written(one.made, owners, rank):
            together = [names] if parallel.fuse_broadcasts else [[name] for name in names]
            for some in together:
                block.insert_op(
                    one.position(block),
                    type="replica_broadcast",
                    inputs={"X": some},
                    outputs={"Out": some},
                    attrs={"root": owner, **role},
                )


def _written(
    made: Sequence[Operator], owners: Mapping[str, int], rank: int
) -> list[tuple[int, list[str]]]:
    """(owner, what its updates write), by owner."""
    written: dict[int, dict[str, None]] = {}
    for op in made:
        owner = owners.get(op.input("Param")[0], rank)
        written.setdefault(owner, {}).update(dict.fromkeys(op.output_arg_names))
    return [(owner, list(names)) for owner, names in sorted(written.items())]


def balance(block: Block, replicas: int) -> dict[str, int]:
    """Parameter -> owner, so that every replica updates about as many bytes."""
    loads = [0] * replicas
    owners = {}
    sizes = {param: bytes_of(block.var_recursive(param)) for param, _ in parameter_gradients(block)}
    for param in sorted(sizes, key=lambda name: (-sizes[name], name)):
        owners[param] = loads.index(min(loads))
        loads[owners[param]] += sizes[param] or 1
    return owners
