"""Layers by which trainers exchange values."""
