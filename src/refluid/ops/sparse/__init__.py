"""Operators: SelectedRows."""
