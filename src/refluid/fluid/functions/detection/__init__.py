"""Layers: object detection."""
