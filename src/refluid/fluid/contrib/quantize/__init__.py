"""Quantisation of programs in their place."""

from refluid.fluid.contrib.quantize import quantize_transpiler
from refluid.fluid.contrib.quantize.quantize_transpiler import QuantizeTranspiler

__all__ = ["QuantizeTranspiler", "quantize_transpiler"]
