"""Filters cut out of convolutions, with all that belongs to them."""

from refluid.fluid.contrib.slim.prune.auto_prune_strategy import AutoPruneStrategy
from refluid.fluid.contrib.slim.prune.prune_strategy import (
    PruneStrategy,
    SensitivePruneStrategy,
    UniformPruneStrategy,
)
from refluid.fluid.contrib.slim.prune.pruner import Pruner, StructurePruner

__all__ = [
    "AutoPruneStrategy",
    "PruneStrategy",
    "Pruner",
    "SensitivePruneStrategy",
    "StructurePruner",
    "UniformPruneStrategy",
]
