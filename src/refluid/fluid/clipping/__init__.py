"""Clipping: what `fluid.clip` is made of."""
