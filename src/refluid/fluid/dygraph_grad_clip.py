"""`fluid.dygraph_grad_clip`: the clips that Fluid 1.6 gave `minimize(loss, grad_clip=..)`."""

from __future__ import annotations

from typing import Any

from refluid.fluid.clip import (
    GradientClipBase,
    GradientClipByGlobalNorm,
    GradientClipByNorm,
    GradientClipByValue,
)

__all__ = ["GradClipByGlobalNorm", "GradClipByNorm", "GradClipByValue"]

GradClipBase, GradClipByNorm = GradientClipBase, GradientClipByNorm


class GradClipByValue(GradientClipByValue):
    """Clips every element to [min_value, max_value]; with one bound to [-|bound|, |bound|]."""

    def __init__(self, min_value: float, max_value: float | None = None) -> None:
        alone = abs(float(min_value))
        super().__init__(*((alone, -alone) if max_value is None else (max_value, min_value)))


class GradClipByGlobalNorm(GradientClipByGlobalNorm):
    """Scales all gradients by `max_global_norm / max(global norm, max_global_norm)`."""

    def __init__(self, max_global_norm: float, dtype: Any = "float32") -> None:
        super().__init__(max_global_norm)
