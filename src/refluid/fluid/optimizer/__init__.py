"""Optimizers under Fluid's names."""

from refluid.fluid.optimizer.adam import Adam, AdamOptimizer
from refluid.fluid.optimizer.base import Optimizer
from refluid.fluid.optimizer.momentum import Momentum, MomentumOptimizer
from refluid.fluid.optimizer.sgd import SGD, SGDOptimizer

__all__ = [
    "SGD",
    "Adam",
    "AdamOptimizer",
    "Momentum",
    "MomentumOptimizer",
    "Optimizer",
    "SGDOptimizer",
]
