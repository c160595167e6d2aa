"""A student learns from the feature maps of teachers."""

from refluid.fluid.contrib.slim.distillation.distillation_strategy import DistillationStrategy
from refluid.fluid.contrib.slim.distillation.distiller import (
    FSPDistiller,
    L2Distiller,
    SoftLabelDistiller,
)

__all__ = ["DistillationStrategy", "FSPDistiller", "L2Distiller", "SoftLabelDistiller"]
