"""g1 = lookup_table_grad(ids, d) ; g = g0 + g1 -> the rows d are added to g0 at their ids.

The gradient of a table that is also used otherwise, as words are that a language model reads and
predicts, is a sum. Its terms that come from looking rows up stay rows, sparse gradients, instead of
being tables full of zeros.
"""

from __future__ import annotations

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
