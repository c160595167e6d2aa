"""summary: a table of what the operators of a network take, give, hold and compute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from refluid.fluid.graphs.operations import is_forward, operations
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Parameter

__all__ = ["summary"]

_HEAD = ("No.", "TYPE", "INPUT", "OUTPUT", "PARAMs", "FLOPs")


def summary(main_prog: Program) -> None:
    """Prints convolutions, products, pooling, batch norms, activations and elementwise arithmetic.

    INPUT and OUTPUT are shapes without the batch, PARAMs the numbers in an operator's parameters,
    FLOPs its operations for one row, where a multiplication and its addition are two. TypeError
    unless it is a program.
    """
    if not isinstance(main_prog, Program):
        raise TypeError(f"summary takes a Program, not {type(main_prog).__name__}")
    rows = [*_rows(main_prog)]
    print(*_table([_HEAD, *([str(part) for part in row] for row in rows)]), sep="\n")
    params, flops = sum(row[4] for row in rows), sum(row[5] for row in rows)
    print(f"Total PARAMs: {params}({params / 1e9:.4f}G)")
    print(f"Total FLOPs: {flops}({flops / 1e9:.2f}G)")


def _rows(program: Program) -> Iterator[tuple[int, str, str, str, int, int]]:
    counted = [op for op in program.global_block().ops if is_forward(op) and operations(op)]
    for number, op in enumerate(counted):
        made = op.output("Y") or op.output_arg_names
        yield (
            *(number, op.type, _shape(op, _given(op)), _shape(op, made[0])),
            *(_parameters(op), operations(op)),
        )


def _given(op: Operator) -> str:
    """The name of what it is applied to."""
    names = [*op.input("Input"), *op.input("X"), *op.input_arg_names]
    return names[0]


def _shape(op: Operator, name: str) -> str:
    sizes: Sequence[int] = op.block.var_recursive(name).shape[1:]
    return f"({', '.join(map(str, sizes))})"


def _parameters(op: Operator) -> int:
    read = [op.block.var_recursive(name) for name in op.input_arg_names]
    return sum(math.prod(one.shape) for one in read if isinstance(one, Parameter))


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = "+".join(["", *("-" * (width + 2) for width in widths), ""])
    yield rule
    for number, row in enumerate(rows):
        cells = (f" {text:>{width}} " for text, width in zip(row, widths, strict=True))
        yield "|".join(["", *cells, ""])
        if number in (0, len(rows) - 1):
            yield rule
