"""Operators: updates of parameters, in place."""
