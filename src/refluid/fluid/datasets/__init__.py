"""Datasets: what `fluid.dataset` is made of."""
