"""Operators: blocks, branches, loops and arrays."""
