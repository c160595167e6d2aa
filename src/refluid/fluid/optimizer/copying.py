"""Programs that copy parameters away and back, for averages of parameters."""

from __future__ import annotations

from collections.abc import Iterable

from refluid.fluid import layers
from refluid.ir.block import Block
from refluid.ir.defaults import default_main_program, program_guard
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable


def averaged_parameters() -> list[Parameter]:
    """The default program's parameters but for those with `do_model_average=False`."""
    params = default_main_program().global_block().all_parameters()
    return [param for param in params if param.do_model_average is not False]


def twin(block: Block, var: Variable) -> Variable:
    """The variable of the same name in another program, which finds it in the scope."""
    return block.create_var(
        name=var.name,
        type=var.type,
        shape=var.shape if var.has_description() else None,
        dtype=var.dtype,
        lod_level=var.lod_level,
        persistable=True,
    )


def copy_back(program: Program, pairs: Iterable[tuple[Parameter, Variable]]) -> None:
    """Appends to `program` what gives each parameter the value of its spare variable."""
    block = program.global_block()
    with program_guard(program):
        for param, spare in pairs:
            layers.assign(twin(block, spare), output=twin(block, param))
