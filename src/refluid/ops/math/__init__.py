"""Operators: functions of numbers: elementwise, matrix products, reductions, order."""
