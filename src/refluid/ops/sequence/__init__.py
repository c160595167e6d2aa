"""Operators: rows of sequences (LoD)."""
