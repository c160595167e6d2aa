"""`paddle.regularizer`: weight decay."""

from __future__ import annotations

from refluid.fluid.regularizer import L1DecayRegularizer, L2DecayRegularizer

__all__ = ["L1Decay", "L2Decay"]


class L1Decay(L1DecayRegularizer):
    """Adds `coeff * sign(param)` to the gradient. A parameter's own goes before the optimizer's."""

    def __init__(self, coeff: float = 0.0) -> None:
        super().__init__(coeff)


class L2Decay(L2DecayRegularizer):
    """Adds `coeff * param` to the gradient. A parameter's own goes before the optimizer's."""

    def __init__(self, coeff: float = 0.0) -> None:
        super().__init__(coeff)
