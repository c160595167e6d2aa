"""The layers of `fluid.layers.metric_op`."""

from refluid.fluid.functions.metric.accuracy import (
    accuracy,
    auc,
)

__all__ = ["accuracy", "auc"]
