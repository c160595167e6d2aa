"""Operators: measures of how good results are."""
