"""Layers: making, shaping, joining, cutting and filling of tensors."""
