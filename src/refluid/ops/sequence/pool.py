"""Each sequence becomes one row: its sum, mean, greatest, first or last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.checks import one_of
from refluid.ir.operator import Operator
from refluid.ops.gradient_slots import gradient_reads
from refluid.ops.registry import gradient, operator
from refluid.ops.sequence.levels import infer_from, sequences_of
from refluid.ops.sequence.padded import take_rows

_SUM, _MAX = 0, 2  # modes of torch.embedding_bag


def _bags(rows: Tensor, sequences: Offsets, mode: int) -> tuple[Tensor, Tensor]:
    """Sums or maxima, and where the maxima lie."""
    every = sequences.once(_every, rows.shape[0], device=rows.device)
    offsets = sequences.tensor(rows.device)
    out = torch.embedding_bag(rows, every, offsets, False, mode, False, None, True)
    return out[0], out[3]


def _every(sequences: Offsets, count: int) -> npt.NDArray[np.int64]:
    return np.arange(count)


def sum_rows(rows: Tensor, sequences: Offsets) -> Tensor:
    """The sum of the rows (n, width) of each sequence; zero for an empty one."""
    if not sequences.total:
        return rows.new_zeros((sequences.count, rows.shape[1]))
    return _bags(rows, sequences, _SUM)[0]


def scales(pooltype: str, sequences: Offsets, like: Tensor) -> Tensor | None:
    """What sums are multiplied by, shape (sequences, 1); None for 1."""
    if pooltype == "SUM":
        return None
    lengths = sequences.length_tensor(like.device).clamp(min=1).to(like.dtype).unsqueeze(1)
    return lengths.reciprocal() if pooltype == "AVERAGE" else lengths.rsqrt()


def add_up(pooltype: str, rows: Tensor, sequences: Offsets) -> Tensor:
    """The sums ("SUM"), means ("AVERAGE") or sums / sqrt(length) ("SQRT") of sequences."""
    scale = scales(pooltype, sequences, rows)
    out = sum_rows(rows, sequences)
    return out if scale is None else out * scale


def _ends(pooltype: str, sequences: Offsets, device: torch.device) -> Tensor:
    """The first or last row of each sequence; some row for an empty one."""
    offsets = sequences.tensor(device)
    found = offsets[:-1] if pooltype == "FIRST" else offsets[1:] - 1
    return found.clamp(0, max(sequences.total - 1, 0))


def _end_rows(pooltype: str, rows: Tensor, sequences: Offsets) -> Tensor:
    if not sequences.total:
        return rows.new_zeros((sequences.count, rows.shape[1]))
    return take_rows(rows, _ends(pooltype, sequences, rows.device))


POOLS: dict[str, Callable[[str, Tensor, Offsets], Tensor]] = {
    "SUM": add_up,
    "AVERAGE": add_up,
    "SQRT": add_up,
    "FIRST": _end_rows,
    "LAST": _end_rows,
}


def _find_max(rows: Tensor, sequences: Offsets) -> tuple[Tensor, Tensor]:
    """Maxima, and their rows; -1 where a sequence is empty."""
    if not sequences.total:
        shape = (sequences.count, rows.shape[1])
        return rows.new_zeros(shape), torch.full(shape, -1, device=rows.device)
    if sequences.all_are(1):
        return rows, torch.arange(rows.shape[0], device=rows.device).unsqueeze(1).expand(rows.shape)
    out, index = _bags(rows, sequences, _MAX)
    if sequences.some_empty:
        index = index.masked_fill(_empty(sequences, rows.device), -1)
    return out, index


def _empty(sequences: Offsets, device: torch.device) -> Tensor:
    return (sequences.length_tensor(device) == 0).unsqueeze(1)


_DESCRIBED = infer_from(
    {
        "Out": lambda X: (-1, *X[1:]),
        "MaxIndex": lambda X, pooltype: (-1, *X[1:]) if pooltype == "MAX" else None,
    },
    levels={"Out": lambda X: max(X - 1, 0), "MaxIndex": lambda X: 0},
    dtypes={"MaxIndex": None},
)


@operator(
    "sequence_pool",
    outputs="Out MaxIndex",
    makes_lod="Out",
    lod="",
    views={"Out": "X"},
    infer=_DESCRIBED,
)
def sequence_pool(
    X: Tensor,
    *,
    lod_X: Levels,
    is_test: bool = False,
    pooltype: Annotated[str, one_of("AVERAGE", "SUM", "SQRT", "MAX", "FIRST", "LAST")] = "AVERAGE",
    pad_value: float = 0.0,
) -> tuple[Tensor, Tensor | None, Levels]:
    """Each sequence of the last level of X (rows, ...) becomes one row, pad_value an empty one.

    pooltype: SUM, AVERAGE, SQRT (sum / sqrt(length)), MAX, FIRST or LAST. MaxIndex: for MAX the
    int32 rows of X that were greatest. Out has the upper levels of X.
    """
    sequences = sequences_of(X, lod_X)
    if sequences.count > X.shape[0]:
        raise EnforceNotMet(
            f"X has {X.shape[0]} rows, but {sequences.count} sequences need as many at least"
        )
    rows = X.flatten(1) if X.dim() > 1 else X.unsqueeze(1)
    index = None
    if pooltype == "MAX":
        out, index = _find_max(rows, sequences)
        index = index.int().reshape(-1, *X.shape[1:])
    elif pooltype in POOLS and sequences.all_are(1):
        out = rows
    elif pooltype in POOLS:
        out = POOLS[pooltype](pooltype, rows, sequences)
    else:
        raise EnforceNotMet(f"no pooltype {pooltype!r}; there are MAX, {', '.join(POOLS)}")
    if sequences.some_empty:
        out = out.masked_fill(_empty(sequences, X.device), pad_value)
    return out.reshape(-1, *X.shape[1:]), index, lod_X[:-1]


def _spread(pooltype: str, d_rows: Tensor, sequences: Offsets) -> Tensor:
    scale = scales(pooltype, sequences, d_rows)
    scaled = d_rows if scale is None else d_rows * scale
    return take_rows(scaled, sequences.owners(d_rows.device))


def _put_at_end(pooltype: str, d_rows: Tensor, sequences: Offsets) -> Tensor:
    grad = d_rows.new_zeros((sequences.total, d_rows.shape[1]))
    if not sequences.total:
        return grad
    if sequences.some_empty:
        d_rows = d_rows.masked_fill(_empty(sequences, d_rows.device), 0.0)
    return grad.index_add_(0, _ends(pooltype, sequences, d_rows.device), d_rows)


def _put_at(index: Tensor, d_rows: Tensor, sequences: Offsets) -> Tensor:
    grad = d_rows.new_zeros((sequences.total, d_rows.shape[1]))
    if not sequences.total:
        return grad
    if sequences.some_empty:
        d_rows = d_rows.masked_fill(index < 0, 0.0)
    return grad.scatter_add_(0, index.long().clamp(min=0), d_rows)


SPREADS: dict[str, Callable[[str, Tensor, Offsets], Tensor]] = {
    "SUM": _spread,
    "AVERAGE": _spread,
    "SQRT": _spread,
    "FIRST": _put_at_end,
    "LAST": _put_at_end,
}


@gradient("sequence_pool", views={"d_X": "d_Out"})
def sequence_pool_grad(
    X: Tensor,
    MaxIndex: Tensor | None,
    d_Out: Tensor,
    *,
    lod_X: Levels,
    pooltype: str = "AVERAGE",
) -> Tensor:
    """d_Out spread over the rows that it was made of; nothing comes from pad_value."""
    sequences = sequences_of(X, lod_X)
    d_rows = d_Out.reshape(sequences.count, -1)
    if MaxIndex is not None:
        grad = _put_at(MaxIndex.reshape(d_rows.shape), d_rows, sequences)
    elif sequences.all_are(1):
        grad = d_rows
    else:
        grad = SPREADS[pooltype](pooltype, d_rows, sequences)
    return grad.reshape(X.shape)


@gradient_reads("sequence_pool")
def _read_by_gradient(op: Operator) -> list[str]:
    """Only MAX passes on where it found its rows."""
    found = ["MaxIndex"] if op.attr("pooltype") == "MAX" else []
    return [*found, "X", "Out@GRAD"]
