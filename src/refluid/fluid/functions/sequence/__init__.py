"""Layers: rows of sequences (LoD)."""
