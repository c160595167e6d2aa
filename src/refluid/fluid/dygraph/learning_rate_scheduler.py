"""`fluid.dygraph.learning_rate_scheduler`: learning rates that change from step to step."""

from refluid.fluid.dygraph.parts.epoch_schedules import (
    LambdaDecay,
    MultiStepDecay,
    ReduceLROnPlateau,
    StepDecay,
    _LearningRateEpochDecay,  # noqa: F401
)
from refluid.fluid.dygraph.parts.schedules import (
    CosineDecay,
    ExponentialDecay,
    InverseTimeDecay,
    LearningRateDecay,  # noqa: F401
    LinearLrWarmup,
    NaturalExpDecay,
    NoamDecay,
    PiecewiseDecay,
    PolynomialDecay,
)

__all__ = [
    "CosineDecay",
    "ExponentialDecay",
    "InverseTimeDecay",
    "LambdaDecay",
    "LinearLrWarmup",
    "MultiStepDecay",
    "NaturalExpDecay",
    "NoamDecay",
    "PiecewiseDecay",
    "PolynomialDecay",
    "ReduceLROnPlateau",
    "StepDecay",
]
