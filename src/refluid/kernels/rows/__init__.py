"""Rows of tables, on plain tensors of the CPU: looked up, updated, put in order, added up."""
