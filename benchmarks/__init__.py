"""Measurements of refluid against its peers, made in the same run."""
