"""Saving and loading: what `fluid.io` is made of."""
