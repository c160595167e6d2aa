"""Whether replicas may share what a program trains, each updating a part of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from refluid.analysis.uses import is_update, names_read, names_written
from refluid.core.notices import tell_once
from refluid.engine.strategy import ReduceStrategy, Strategy
from refluid.ir.attributes import OpRole
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.passes.data_parallel import updates


def without_races(program: Program, strategy: Strategy) -> Strategy:
    """The strategy, or AllReduce where replicas would get in each other's way by sharing.

    One replica would read or change what another one is updating: averages of parameters, decay
    beside the update, clipped parameters. The log says which operator it is.
    """
    found = in_the_way(program)
    if found is None:
        return strategy
    op, name = found
    tell_once(
        f"reduce_strategy Reduce: operator {op.type} uses '{name}' beside its update, so every "
        f"replica keeps all parameters and updates them, as AllReduce does\n{op.made_at}"
    )
    return replace(strategy, reduce_strategy=ReduceStrategy.AllReduce)


def in_the_way(program: Program) -> tuple[Operator, str] | None:
    """The first operator that makes the order count in which replicas update, and of what.

    It writes what an update writes, reads it afterwards, or reads it for another update.
    """
    trained = {name for op in updates(program) for name in op.output_arg_names}
    if not trained:
        return None
    done: set[str] = set()
    derived: dict[str, set[str]] = {}
    for op in _in_order(program.global_block()):
        read = set(names_read(op))
        if is_update(op):
            apart = set().union(*(derived.get(name, ()) for name in read))
            found = apart - set(op.output_arg_names)
            done |= set(op.output_arg_names)
        else:
            written = set(names_written(op))
            found = (trained & written) | (done & read)
            if op.role & OpRole.OPTIMIZE:
                of = (trained & read).union(*(derived.get(name, ()) for name in read))
                derived |= {name: derived.get(name, set()) | of for name in written if of}
        if found:
            return op, min(found)
    return None


def _in_order(block: Block) -> Iterator[Operator]:
    """A block's operators, and those in the blocks of each instead of it."""
    for op in block.ops:
        inner = list(op.sub_blocks())
        if not inner:
            yield op
        for one in inner:
            yield from _in_order(one)
