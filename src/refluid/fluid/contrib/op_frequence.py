"""op_freq_statistic: which operators a program has, and which follow one another."""

from __future__ import annotations

from collections import Counter

from refluid.ir.program import Program
from refluid.ir.variable import Parameter

__all__ = ["op_freq_statistic"]

Counts = list[tuple[str, int]]


def op_freq_statistic(program: Program) -> tuple[Counts, Counts]:
    """(operators, pairs `a->b`) with how often each occurs, most frequent first.

    A pair is an operator and one that reads what it wrote. TypeError unless it is a program.
    """
    if not isinstance(program, Program):
        raise TypeError(
            f"The input type should be Program. But you passed in {type(program).__name__}"
        )
    block = program.global_block()
    single: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    writer: dict[str, str] = {}
    for op in block.ops:
        single[op.type] += 1
        for name in op.input_arg_names:
            if name in writer and not isinstance(block.vars.get(name), Parameter):
                pairs[f"{writer[name]}->{op.type}"] += 1
        writer |= dict.fromkeys(op.output_arg_names, op.type)
    return single.most_common(), pairs.most_common()
