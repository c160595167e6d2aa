"""Messages along edges: of the nodes where they begin, and of the edges, to where they end.

Edges are given as two lists of the same length, of nodes' numbers: where each begins and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.geometric.segments import reduced
from refluid.paddle.tensor import manipulation, math, search
from refluid.paddle.tensor.making import rank_of

_JOINED: Mapping[str, Callable[..., Variable]] = {
    "add": math.add,
    "sub": math.subtract,
    "mul": math.multiply,
    "div": math.divide,
}
_REDUCED = ("sum", "mean", "max", "min")


def send_u_recv(
    x: Variable,
    src_index: Variable,
    dst_index: Variable,
    reduce_op: str = "sum",
    out_size: Any = None,
    name: str | None = None,
) -> Variable:
    """Each node gets the sum, mean, max or min of the rows of x from which edges lead to it.

    Nodes without edges get 0. out_size: how many nodes there are; as many as x has unless given.
    """
    sent = search.gather(x, src_index)
    return _received(sent, x, dst_index, reduce_op, out_size, name)


def send_ue_recv(
    x: Variable,
    y: Variable,
    src_index: Variable,
    dst_index: Variable,
    message_op: str = "add",
    reduce_op: str = "sum",
    out_size: Any = None,
    name: str | None = None,
) -> Variable:
    """As `send_u_recv`, with what belongs to the edges, y, added, or else joined, to each message.

    message_op: add, sub, mul or div. Dimensions are broadcast behind the first.
    """
    sent = _joined(search.gather(x, src_index), y, message_op)
    return _received(sent, x, dst_index, reduce_op, out_size, name)


def send_uv(
    x: Variable,
    y: Variable,
    src_index: Variable,
    dst_index: Variable,
    message_op: str = "add",
    name: str | None = None,
) -> Variable:
    """For each edge the row of x where it begins, with that of y where it ends added, or so."""
    begins, ends = search.gather(x, src_index), search.gather(y, dst_index)
    return _joined(begins, ends, message_op)


def _joined(x: Variable, y: Variable, how: str) -> Variable:
    if how not in _JOINED:
        raise ValueError(f"message_op should be one of {', '.join(_JOINED)}, but received {how}")
    rank = max(rank_of(x), rank_of(y))
    return _JOINED[how](_of_rank(x, rank), _of_rank(y, rank))


def _of_rank(x: Variable, rank: int) -> Variable:
    """x with dimensions of 1 behind its first, so that both broadcast edge by edge."""
    own = rank_of(x)
    return x if own == rank else manipulation.unsqueeze(x, list(range(1, rank - own + 1)))


def _received(
    sent: Variable, x: Variable, where: Variable, how: str, size: Any, name: str | None
) -> Variable:
    if how not in _REDUCED:
        raise ValueError(f"reduce_op should be one of {', '.join(_REDUCED)}, but received {how}")
    rows = int(size.numpy()) if isinstance(size, Variable) else int(size or 0)
    return reduced(sent, where, how, rows if rows > 0 else x, name)
