"""Passes on copies of programs, whether a strategy asks for them or not."""

from __future__ import annotations

from collections.abc import Iterable

from refluid.engine.pipeline import BY_NAME, Rewritten, run_passes
from refluid.engine.setting import Setting
from refluid.ir.program import Program


def passed(program: Program, *names: str, kept: Iterable[str] = ()) -> Rewritten:
    """The program after the passes of these names."""
    setting = Setting(kept=frozenset(kept))
    return run_passes(program, [BY_NAME[name] for name in names], setting)
