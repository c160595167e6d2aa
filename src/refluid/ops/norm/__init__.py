"""Operators: normalisations."""
