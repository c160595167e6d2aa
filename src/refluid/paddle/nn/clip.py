"""`paddle.nn.ClipGradBy..`: gradients clipped, but for parameters that say they need it not."""

from __future__ import annotations

from typing import Any

from refluid.fluid.clipping.gradients import (
    GradientClipBase,
    GradientClipByGlobalNorm,
    GradientClipByNorm,
    GradientClipByValue,
)

__all__ = ["ClipGradByGlobalNorm", "ClipGradByNorm", "ClipGradByValue"]


class ClipGradBase(GradientClipBase):
    """Base of gradient clips: parameters with `need_clip=False` keep their gradients."""

    def wants(self, param: Any) -> bool:
        """Whether this parameter's gradient is clipped."""
        return bool(getattr(param, "need_clip", True))


class ClipGradByValue(ClipGradBase, GradientClipByValue):
    """Clips every element to [min, max]; `min` is `-max` unless given."""

    def __init__(self, max: float, min: float | None = None) -> None:
        GradientClipByValue.__init__(self, max, min)


class ClipGradByNorm(ClipGradBase, GradientClipByNorm):
    """Scales each gradient whose L2 norm exceeds `clip_norm` down to that norm."""

    def __init__(self, clip_norm: float) -> None:
        GradientClipByNorm.__init__(self, clip_norm)


class ClipGradByGlobalNorm(ClipGradBase, GradientClipByGlobalNorm):
    """Scales all gradients by `clip_norm / max(global_norm, clip_norm)`.

    group_name: which gradients count together where parameters are clipped by their own clip.
    auto_skip_clip: changes nothing here.
    """

    def __init__(
        self, clip_norm: float, group_name: str = "default_group", auto_skip_clip: bool = False
    ) -> None:
        GradientClipByGlobalNorm.__init__(self, clip_norm, group_name)
