"""Layers: measures of how good results are."""
