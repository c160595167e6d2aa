"""The programs that layer calls write to, and the guards that change them for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from refluid.ir.program import Program

_main = Program()
_startup = Program()


def default_main_program() -> Program:
    """The program that layers append to."""
    return _main


def default_startup_program() -> Program:
    """The program that initialises the parameters."""
    return _startup


def switch_main_program(program: Program) -> Program:
    """Makes `program` the default main program; returns the former."""
    global _main
    former, _main = _main, program
    return former


def switch_startup_program(program: Program) -> Program:
    """Makes `program` the default startup program; returns the former."""
    global _startup
    former, _startup = _startup, program
    return former


@contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Iterator[None]:
    """Layers called within the block write to these programs. TypeError for other things."""
    for program in (main_program, startup_program or main_program):
        if not isinstance(program, Program):
            raise TypeError(f"program_guard takes fluid.Program, not {type(program).__name__}")
    former_main = switch_main_program(main_program)
    former_startup = switch_startup_program(startup_program) if startup_program else None
    try:
        yield
    finally:
        switch_main_program(former_main)
        if former_startup is not None:
            switch_startup_program(former_startup)
