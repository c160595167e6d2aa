"""Requests of Fluid 1.x before 1.6 to save memory, which plans do by themselves."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from refluid.core.notices import tell_once
from refluid.ir.program import Program

__all__ = ["memory_optimize", "release_memory"]


def memory_optimize(
    input_program: Program,
    skip_opt_set: Collection[Any] | None = None,
    print_log: bool = False,
    level: int = 0,
    skip_grads: bool = True,
) -> None:
    """Changes nothing: a plan gives memory back after the last use of each variable anyway."""
    tell_once(_TEXT.format("memory_optimize"))


def release_memory(
    input_program: Program,
    skip_opt_set: Collection[Any] | None = None,
) -> None:
    """Changes nothing, as `memory_optimize`."""
    tell_once(_TEXT.format("release_memory"))


_TEXT = (
    "fluid.{} changes nothing: memory is given back after the last use of a variable in any case "
    "(BuildStrategy.memory_optimize and enable_inplace say more)"
)
