"""Gradients of tables stay rows, sparse gradients, instead of being tables full of zeros.

`add_table_rows`: g1 = lookup_table_grad(ids, d) ; g = g0 + g1 -> the rows d are added to g0 at
their ids. So of a table that is also used otherwise, as words are that a language model reads and
predicts.

`update_table_rows`: of a large table whose gradient is only scaled, summed in squares and descended
along (`rows_suffice`), by plain SGD, clipped or not. Where a batch names many of its rows, which is
seen as it runs, the gradient stays dense. A factor that isn't finite spoils the rows that a batch
names, not all.
"""

from __future__ import annotations

import math

from refluid.analysis.uses import BlockUses, Version, blocks_in_use, uses_in
from refluid.core.dtypes import VarType
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.registry import facts_of
from refluid.passes.protocol import Options, Report


def add_table_rows(program: Program, options: Options) -> Report:
    """Rewrites all such sums of the program, in place. Variables that are kept stay dense."""
    report = Report()
    for block in blocks_in_use(program):
        uses = uses_in(block)
        for position, op in enumerate(block.ops):
            if facts_of(op.type).adds:
                report.made += _rewrite(op, position, uses, options.kept)
    return report


def _rewrite(op: Operator, position: int, uses: BlockUses, kept: frozenset[str]) -> list[str]:
    """Makes terms of a sum sparse; what was done."""
    block, names = uses.block, op.input("X")
    makers = {name: _maker(name, position, uses, kept) for name in names}
    if len(makers) < len(names) or not all(_is_dense(block, name) for name in names):
        return []
    dense = [name for name in names if makers[name] is None] or names[:1]
    sparse = [name for name in names if name not in dense]
    for name in sparse:
        maker = makers[name]
        assert maker is not None
        maker.set_attr("is_sparse", True)
        maker.set_attr("as_dense", True)
        block.vars[name].type = VarType.SELECTED_ROWS
    op.set_input("X", dense + sparse)
    return [f"rows added to {dense[0]}" for _ in sparse]


def _maker(name: str, position: int, uses: BlockUses, kept: frozenset[str]) -> Operator | None:
    """The lookup whose gradient this term is, if nobody else sees it."""
    term = uses.before(position, name)
    maker = uses.maker(term)
    if maker is None or not facts_of(uses.block.ops[maker].type).gives_rows:
        return None
    alone = uses.users(term) == [position] and _is_private(term, uses, kept)
    return uses.block.ops[maker] if alone else None


def _is_private(term: Version, uses: BlockUses, kept: frozenset[str]) -> bool:
    once = len(uses.writers.get(term.name, ())) == 1
    return once and term.name not in kept | uses.shared and term.name in uses.block.vars


def _is_dense(block: Block, name: str) -> bool:
    var = block.find_var_recursive(name)
    return var is not None and var.type == VarType.LOD_TENSOR and not var.persistable


# -- tables whose rows suffice ---------------------------------------------------

# Fewer numbers are passed over sooner than rows are found.
_LARGE = 2**18


def update_table_rows(program: Program, options: Options) -> Report:
    """Has gradients of large tables be rows, in place, where nobody sees the others."""
    report = Report()
    for block in blocks_in_use(program):
        uses = uses_in(block)
        for position, op in enumerate(block.ops):
            if facts_of(op.type).gives_rows and not op.attr("is_sparse") and _is_large(op):
                (name,) = op.output_arg_names
                rows = _rows(uses.after(position, name), uses, options.kept)
                if rows:
                    op.set_attr("is_sparse", True)
                    op.set_attr("as_dense", True)
                    op.set_attr("if_few", True)
                    report.made.append(f"rows of {name}")
                for one in rows:
                    block.vars[one].type = VarType.SELECTED_ROWS
    return report


def _is_large(op: Operator) -> bool:
    """Whether the table that rows are looked up in is, along its first dimension."""
    (slot,) = facts_of(op.type).rows
    (name,) = op.input(slot)
    table = op.block.find_var_recursive(name)
    return table is not None and min(table.shape) > 0 and math.prod(table.shape) >= _LARGE


def _rows(term: Version, uses: BlockUses, kept: frozenset[str]) -> list[str]:
    """The gradient and what it is scaled to, if rows of all of these suffice; else none."""
    name, users = term.name, uses.users(term)
    if not users or not _is_private(term, uses, kept) or not _is_dense(uses.block, name):
        return []
    found = [name]
    for user in users:
        op = uses.block.ops[user]
        slots = [slot for slot, names in op.inputs.items() if name in names]
        says = facts_of(op.type).rows_suffice
        suffices = says(op) if callable(says) else says
        if len(slots) != 1 or slots[0] not in suffices:
            return []
        if made := suffices[slots[0]]:
            (scaled,) = op.output(made)
            further = _rows(uses.after(user, scaled), uses, kept)
            if not further:
                return []
            found += further
    return found
