"""Rows together with their neighbours in the sequence: sequence_conv and row_conv."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.operator import Operator
from refluid.kernels.products import product
from refluid.ops.bounded import Matrix
from refluid.ops.gradient_slots import gradient_reads
from refluid.ops.infer import infer_like
from refluid.ops.registry import gradient, operator
from refluid.ops.sequence.levels import infer_from, sequences_of
from refluid.ops.sequence.padded import take_rows


def context(
    rows: Tensor, sequences: Offsets, shifts: Sequence[int], edges: Tensor | None = None
) -> Tensor:
    """(n, width) -> (n, shifts, width): the rows so many places further on in the sequence.

    Beyond the ends lie the rows `edges`, first those before the beginning; zeros where None.
    """
    outside = rows.new_zeros((1, rows.shape[1])) if edges is None else edges
    index = context_index(sequences, shifts, edges is not None, rows.device)
    return take_rows(torch.cat((rows, outside)), index)


def context_index(
    sequences: Offsets, shifts: Sequence[int], edges: bool, device: torch.device
) -> Tensor:
    """Where `context` finds its rows: in (rows, then what lies outside), shape (n, shifts)."""
    return sequences.once(_context_rows, tuple(shifts), edges, device=device)


def _context_rows(
    sequences: Offsets, shifts: tuple[int, ...], edges: bool
) -> npt.NDArray[np.int64]:
    shift, total = np.array(shifts, np.int64), sequences.total
    begin, row = sequences.begins()[:, None], np.arange(total)[:, None] + shift
    end = begin + np.repeat(sequences.gaps(), sequences.gaps())[:, None]
    if not edges:
        return np.where((row < begin) | (row >= end), total, row)
    first, last = total + max(-min(shifts, default=0), 0), row - end
    outside = np.where(row < begin, first + row - begin, first + last)
    return np.where((row < begin) | (row >= end), outside, row)


def shifts_of(context_length: int, context_start: int, context_stride: int) -> range:
    """The places of a context relative to its row; EnforceNotMet where rows are left out."""
    if context_stride != 1:
        raise EnforceNotMet(f"contextStride must be 1 but is {context_stride}")
    return range(context_start, context_start + context_length)


def check_filter(rows: Tensor, filter: Tensor, shifts: range) -> None:
    """EnforceNotMet unless the filter has a row for each element of a context."""
    if rows.dim() != 2 or filter.shape[0] != len(shifts) * rows.shape[1]:
        raise EnforceNotMet(
            f"X {tuple(rows.shape)} must be 2-D and Filter {tuple(filter.shape)} have "
            f"contextLength {len(shifts)} times as many rows as X has columns"
        )


@operator(
    "sequence_conv",
    outputs="Out",
    uses="X Filter",
    differentiable="X PaddingData Filter",
    infer=infer_from({"Out": lambda X, Filter: (X[0], Filter[1])}),
)
def sequence_conv(
    X: Tensor,
    PaddingData: Tensor | None,
    Filter: Tensor,
    *,
    lod_X: Levels,
    paddingTrainable: bool = False,
    contextLength: int,
    contextStart: int = 0,
    contextStride: int = 1,
) -> Tensor:
    """Each row of X (n, width) with its neighbours, times Filter (contextLength * width, out).

    A context begins contextStart places from its row. Outside of the sequence are zeros, or
    where paddingTrainable the rows of PaddingData (before + after, width).
    """
    sequences = sequences_of(X, lod_X, levels=1)
    shifts = shifts_of(contextLength, contextStart, contextStride)
    check_filter(X, Filter, shifts)
    edges = PaddingData if paddingTrainable else None
    return product(context(X, sequences, shifts, edges).flatten(1), Filter)


@gradient("sequence_conv")
def sequence_conv_grad(
    X: Tensor,
    PaddingData: Tensor | None,
    Filter: Tensor,
    d_Out: Tensor,
    *,
    lod_X: Levels,
    need: tuple[bool, ...],
    paddingTrainable: bool = False,
    contextLength: int,
    contextStart: int = 0,
    contextStride: int = 1,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Contexts of d_Out looking the other way, times Filter; and contexts of X times d_Out."""
    sequences = sequences_of(X, lod_X)
    shifts = shifts_of(contextLength, contextStart, contextStride)
    edges = PaddingData if paddingTrainable else None
    d_x = d_edges = d_filter = None
    if need[0]:
        turned = Filter.reshape(len(shifts), X.shape[1], -1).transpose(1, 2).flatten(0, 1)
        d_x = product(context(d_Out, sequences, [-one for one in shifts]).flatten(1), turned)
    if need[1] and edges is not None:
        d_context = product(d_Out, Filter.t()).reshape(-1, X.shape[1])
        index = context_index(sequences, shifts, True, X.device).flatten()
        d_all = X.new_zeros((X.shape[0] + edges.shape[0], X.shape[1]))
        d_edges = d_all.index_add_(0, index, d_context)[X.shape[0] :].clone()
    if need[2]:
        d_filter = product(context(X, sequences, shifts, edges).flatten(1).t(), d_Out)
    return d_x, d_edges, d_filter


@gradient_reads("sequence_conv")
def _read_by_gradient(op: Operator) -> list[str]:
    """The padding only where it is learned."""
    learned = ["PaddingData"] if op.attr("paddingTrainable") else []
    return ["X", "Filter", *learned, "Out@GRAD"]


def _flat(X: Tensor, lod: Levels) -> tuple[Tensor, Offsets]:
    """Rows and sequences of a (rows, width) with LoD or a (batch, time, width)."""
    if lod or X.dim() == 2:
        return X, sequences_of(X, lod)
    batch, time, width = X.shape
    return X.reshape(batch * time, width), Offsets.of_lengths([time] * batch)


@operator("row_conv", gradient_lod="none", outputs="Out", infer=infer_like("Out", "X"))
def row_conv(X: Tensor, Filter: Matrix, *, lod_X: Levels) -> Tensor:
    """Each row and those after it in its sequence, times the rows of Filter (ahead, width), added.

    X: (rows, width) with sequences, or (batch, time, width).
    """
    rows, sequences = _flat(X, lod_X)
    ahead = context(rows, sequences, range(Filter.shape[0]))
    return (ahead * Filter).sum(1).reshape(X.shape)


@gradient("row_conv")
def row_conv_grad(
    X: Tensor, Filter: Tensor, d_Out: Tensor, *, lod_X: Levels, need: tuple[bool, ...]
) -> tuple[Tensor | None, Tensor | None]:
    """The rows before of d_Out, weighted; and the rows ahead of X times d_Out, summed."""
    rows, sequences = _flat(X, lod_X)
    d_rows, size = d_Out.reshape(rows.shape), Filter.shape[0]
    d_x = d_filter = None
    if need[0]:
        behind = context(d_rows, sequences, range(0, -size, -1))
        d_x = (behind * Filter).sum(1).reshape(X.shape)
    if need[1]:
        ahead = context(rows, sequences, range(size))
        d_filter = (ahead * d_rows.unsqueeze(1)).sum(0)
    return d_x, d_filter
