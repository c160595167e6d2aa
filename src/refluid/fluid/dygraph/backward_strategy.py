"""`fluid.dygraph.BackwardStrategy`: in which order gradients are summed."""

from __future__ import annotations

__all__ = ["BackwardStrategy"]


class BackwardStrategy:
    """sort_sum_gradient: sums follow the order of the forward operators.

    So they do in any case: autograd sums in an order that a network decides, the same each time.
    """

    sort_sum_gradient = False
