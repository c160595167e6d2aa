"""Operators: losses, and the labelling of sequences."""
