"""Layers: reading, writing, printing and calling Python."""
