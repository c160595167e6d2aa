"""`paddle.static.amp`: mixed precision under Paddle 2's names."""

from __future__ import annotations

from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.contrib.mixed_precision.decorator import OptimizerWithMixedPrecision
from refluid.fluid.contrib.mixed_precision.decorator import decorate as decorate_in_fluid
from refluid.fluid.contrib.mixed_precision.fp16_lists import AutoMixedPrecisionLists
from refluid.fluid.optimizer.base import Optimizer
from refluid.ops.registry import operators
from refluid.passes.mixed_precision import FAST, describe_half

__all__ = ["AutoMixedPrecisionLists", "CustomOpLists", "decorate"]

CustomOpLists = AutoMixedPrecisionLists


def decorate(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    level: str = "O1",
    dtype: str = "float16",
    init_loss_scaling: float = 2**15,
    incr_every_n_steps: int = 1000,
    decr_every_n_nan_or_inf: int = 2,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.8,
    use_dynamic_loss_scaling: bool | None = None,
) -> OptimizerWithMixedPrecision:
    """As `fluid.contrib.mixed_precision.decorate`, with a choice of element type.

    dtype: `float16` or `bfloat16`; ValueError for others. bfloat16 has the range of float32, so
    the loss is not scaled unless `use_dynamic_loss_scaling` is given.
    level: `O1`, operators by list, or `O0`, everything float32; ValueError for others.
    """
    half = as_dtype(dtype)
    describe_half(half)
    if level not in ("O0", "O1"):
        raise ValueError(f"level must be 'O0' or 'O1', not {level!r}: parameters stay float32 here")
    if level == "O0":
        amp_lists = AutoMixedPrecisionLists(
            custom_black_list=[one.type for one in operators() if one.amp == FAST]
        )
    ranges_less = half == VarType.FP16
    asked = use_dynamic_loss_scaling is not None
    decorated = decorate_in_fluid(
        optimizer,
        amp_lists,
        init_loss_scaling if asked or ranges_less else 1.0,
        incr_every_n_steps,
        decr_every_n_nan_or_inf,
        incr_ratio,
        decr_ratio,
        bool(use_dynamic_loss_scaling) if asked else ranges_less,
    )
    decorated.half = half
    return decorated
