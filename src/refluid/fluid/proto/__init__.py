"""Fluid's protobuf messages."""
