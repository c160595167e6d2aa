"""Half precision where a strategy file asks for it, and not the script."""

from __future__ import annotations

from refluid.core.dtypes import VarType
from refluid.engine.choices import chosen
from refluid.engine.knobs import KnobScope
from refluid.engine.pipeline import build
from refluid.engine.setting import Setting
from refluid.fluid import layers
from refluid.ir.defaults import program_guard
from refluid.ir.variable import Variable
from refluid.passes.mixed_precision import HALVES, HalfPrecision


def in_chosen_precision(loss: Variable) -> Variable:
    """The loss, in float32; where it was chosen, what it is made of computes in bfloat16.

    That has float32's range, so the loss needs no scale. Parameters stay float32.
    """
    if not chosen(KnobScope.PRECISION).get("decorate") or _is_half(loss):
        return loss
    program = loss.block.program
    build(program, Setting(precision=HalfPrecision(VarType.BF16)))
    with program_guard(program):
        return layers.cast(loss, "float32") if loss.dtype in HALVES else loss


def _is_half(loss: Variable) -> bool:
    """Whether the script asked for half precision itself."""
    return any(var.dtype in HALVES for var in loss.block.program.list_vars())
