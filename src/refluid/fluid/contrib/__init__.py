# ruff: noqa: F403
"""`fluid.contrib`: what is outside of the stable interface."""

from refluid.fluid.contrib import (
    decoder,
    extend_optimizer,
    layers,
    memory_report,
    memory_usage_calc,
    mixed_precision,
    model_stat,
    op_frequence,
    quantize,
    reader,
)
from refluid.fluid.contrib.decoder import *
from refluid.fluid.contrib.extend_optimizer import extend_with_decoupled_weight_decay
from refluid.fluid.contrib.layers import *
from refluid.fluid.contrib.memory_usage_calc import memory_usage
from refluid.fluid.contrib.model_stat import summary
from refluid.fluid.contrib.op_frequence import op_freq_statistic
from refluid.fluid.contrib.quantize import QuantizeTranspiler
from refluid.fluid.contrib.reader import distributed_batch_reader

__all__ = [
    "QuantizeTranspiler",
    "decoder",
    "distributed_batch_reader",
    "extend_optimizer",
    "extend_with_decoupled_weight_decay",
    "memory_report",
    "memory_usage",
    "memory_usage_calc",
    "mixed_precision",
    "model_stat",
    "op_freq_statistic",
    "op_frequence",
    "quantize",
    "reader",
    "summary",
    *decoder.__all__,
    *layers.__all__,
]
