"""Which program `fluid.io` saves from, or loads for."""

from __future__ import annotations

import warnings
from typing import Any

from refluid.fluid.compiler import CompiledProgram
from refluid.ir.defaults import default_main_program
from refluid.ir.program import Program


def program_of(main_program: Any) -> Program:
    """`main_program`, or the default one where it is None; TypeError for what is no program."""
    program = default_main_program() if main_program is None else main_program
    if not isinstance(program, Program):
        raise TypeError(
            f"The type of input main_program is invalid, expected type is fluid.Program, "
            f"but received {type(program)}"
        )
    return program


def program_to_save(main_program: Any) -> Program:
    """The same; of a `CompiledProgram` the program that was compiled, with a warning."""
    if not isinstance(main_program, CompiledProgram):
        return program_of(main_program)
    warnings.warn(
        "The input is a CompiledProgram, this is not recommended: give the program it was made of.",
        stacklevel=3,
    )
    return main_program._program
