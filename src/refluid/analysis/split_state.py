"""What a worker has only a part of, where a program's layers are split among workers."""

from __future__ import annotations

from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Parameter


def split_parameters(program: Program) -> list[Parameter]:
    """The parameters of which this worker has a part."""
    params = program.global_block().all_parameters()
    return [one for one in params if isinstance(one, Parameter) and one.split_in]


def split_state(program: Program) -> dict[str, int]:
    """Split parameters, and what optimizers keep for them -> the number of their group."""
    group = {one.name: one.split_in for one in split_parameters(program)}
    kept = {var.name for var in program.list_vars() if var.persistable}
    found = dict(group)
    for block in program.blocks if group else ():
        for op in block.ops:
            about = {*_param(op), *(name for name, _ in op.role_pairs)} & group.keys()
            for name in kept.intersection(op.output_arg_names) if about else ():
                found.setdefault(name, group[min(about)])
    return found


def _param(op: Operator) -> list[str]:
    return list(op.input("Param")) if "Param" in op.inputs else []
