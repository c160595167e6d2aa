"""Operators: reading, writing, printing and calling Python."""
