"""Layers: normalisations."""
