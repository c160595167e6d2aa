"""Optimizers under Fluid's names, short and long."""

from refluid.core.causes import guard
from refluid.fluid.optimizer.adagrad import (
    Adadelta,
    AdadeltaOptimizer,
    Adagrad,
    AdagradOptimizer,
    DecayedAdagrad,
    DecayedAdagradOptimizer,
    RMSProp,
    RMSPropOptimizer,
)
from refluid.fluid.optimizer.adam import (
    Adam,
    Adamax,
    AdamaxOptimizer,
    AdamOptimizer,
    Lamb,
    LambOptimizer,
)
from refluid.fluid.optimizer.base import Optimizer
from refluid.fluid.optimizer.dgc import DGCMomentumOptimizer
from refluid.fluid.optimizer.ftrl import Ftrl, FtrlOptimizer
from refluid.fluid.optimizer.lookahead import LookaheadOptimizer
from refluid.fluid.optimizer.merging import GradientMergeOptimizer
from refluid.fluid.optimizer.model_average import ModelAverage
from refluid.fluid.optimizer.momentum import (
    LarsMomentum,
    LarsMomentumOptimizer,
    Momentum,
    MomentumOptimizer,
)
from refluid.fluid.optimizer.moving_average import ExponentialMovingAverage
from refluid.fluid.optimizer.pipeline import PipelineOptimizer
from refluid.fluid.optimizer.recompute import RecomputeOptimizer
from refluid.fluid.optimizer.sgd import SGD, Dpsgd, DpsgdOptimizer, SGDOptimizer

__all__ = [
    "SGD",
    "Adadelta",
    "AdadeltaOptimizer",
    "Adagrad",
    "AdagradOptimizer",
    "Adam",
    "AdamOptimizer",
    "Adamax",
    "AdamaxOptimizer",
    "DGCMomentumOptimizer",
    "DecayedAdagrad",
    "DecayedAdagradOptimizer",
    "Dpsgd",
    "DpsgdOptimizer",
    "ExponentialMovingAverage",
    "Ftrl",
    "FtrlOptimizer",
    "GradientMergeOptimizer",
    "Lamb",
    "LambOptimizer",
    "LarsMomentum",
    "LarsMomentumOptimizer",
    "LookaheadOptimizer",
    "ModelAverage",
    "Momentum",
    "MomentumOptimizer",
    "Optimizer",
    "PipelineOptimizer",
    "RMSProp",
    "RMSPropOptimizer",
    "RecomputeOptimizer",
    "SGDOptimizer",
]

guard(__all__, globals(), checked=True)
