"""Passes as text: a program before, its operators after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from refluid.engine.pipeline import BY_NAME, Rewritten, run_passes
from refluid.engine.setting import Setting
from refluid.ir.parse import parse_program
from refluid.ir.program import Program
from refluid.ir.text import print_op


def before(text: str) -> Program:
    """The program of these lines: variables and operators of the global block, or whole blocks."""
    return parse_program(f"program\n{text}")


def lines(program: Program) -> list[str]:
    """The operators of all blocks, one a line, without defaults and roles."""
    return [print_op(op, brief=True) for block in program.blocks for op in block.ops]


def after(
    text: str, *names: str, kept: Iterable[str] = (), setting: Setting | None = None
) -> tuple[list[str], Rewritten]:
    """The operators after the passes of these names, whether they are wanted or not."""
    setting = replace(setting or Setting(), kept=frozenset(kept))
    done = run_passes(before(text), [BY_NAME[name] for name in names], setting)
    return lines(done.program), done
