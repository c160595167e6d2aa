"""Operators of a plan written out as the calls of torch that they make, for sizes that change."""
