"""Layers: losses, and the labelling of sequences."""
