"""Layers: blocks, branches, loops and arrays."""
