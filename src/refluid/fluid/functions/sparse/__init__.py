"""Layers: SelectedRows."""
