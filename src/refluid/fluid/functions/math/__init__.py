"""Layers: functions of numbers: elementwise, matrix products, reductions, order."""
