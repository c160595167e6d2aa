"""Masked softmax, messages in graphs under their first name, and a loss as it is."""

from __future__ import annotations

from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.geometric.messages import send_u_recv
from refluid.paddle.nn.functional.activation import softmax
from refluid.paddle.tensor import creation, math, search
from refluid.paddle.tensor.reduction import mean
from refluid.paddle.tensor.reduction import sum as total


def graph_send_recv(
    x: Variable,
    src_index: Variable,
    dst_index: Variable,
    pool_type: str = "sum",
    out_size: Any = None,
    name: str | None = None,
) -> Variable:
    """`paddle.geometric.send_u_recv`."""
    return send_u_recv(x, src_index, dst_index, pool_type, out_size, name)


def softmax_mask_fuse(x: Variable, mask: Variable, name: str | None = None) -> Variable:
    """softmax(x + mask) along the last dimension."""
    return softmax(math.add(x, mask), name=name)


def softmax_mask_fuse_upper_triangle(x: Variable) -> Variable:
    """Softmax along the last dimension, of which row n only knows columns up to n.

    x: batch, heads, length, length. Elements above the diagonal are 0.
    """
    below = creation.tril(creation.ones_like(x)) > 0
    return softmax(search.where(below, x, math.scale(x, 0.0, -1e30)))


def identity_loss(x: Variable, reduction: Any = "none") -> Variable:
    """x as the loss: as it is (none or 2), its mean (mean or 1) or its sum (sum or 0)."""
    if reduction in ("sum", 0):
        return total(x)
    if reduction in ("mean", 1):
        return mean(x)
    if reduction in ("none", 2):
        return x
    raise ValueError(f"reduction is none, mean, sum or their number, not {reduction!r}")
