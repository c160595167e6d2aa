"""Rows to batches, and batches to what a program is fed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from refluid.core.offsets import Levels, Offsets
from refluid.feed.multislot.columns import Columns, joined
from refluid.feed.text_datasets.done import Span

# Rows, and where in which files they stand.
BatchRows = tuple[Columns, tuple[Span, ...]]


@dataclass(frozen=True)
class Batch:
    """The tensors of some rows, one per used slot, and their LoD: none for dense slots.

    spans: which rows they are. Slots whose rows are as long share their LoD.
    """

    rows: int
    tensors: tuple[Tensor, ...]
    lods: tuple[Levels, ...]
    spans: tuple[Span, ...]


class Piece(NamedTuple):
    """Rows as they were read: the file's number, the number of the first row in it, the rows."""

    file: int
    first: int
    columns: Columns

    def part(self, start: int, stop: int) -> Piece:
        """Rows start to stop - 1 of these; the values are not copied."""
        if start == 0 and stop == self.columns.rows:
            return self
        return Piece(self.file, self.first + start, self.columns.part(start, stop))

    @property
    def span(self) -> Span:
        """Which rows these are."""
        return Span(self.file, self.first, self.first + self.columns.rows)


def regroup(pieces: Iterable[Piece], size: int) -> Iterator[BatchRows]:
    """The same rows in groups of `size`, across the bounds of pieces; the last may be smaller.

    A group within one piece shares its memory.
    """
    waiting: list[Piece] = []
    short = size
    for piece in pieces:
        at, rows = 0, piece.columns.rows
        while rows - at >= short:
            waiting.append(piece.part(at, at + short))
            at += short
            yield _group(waiting)
            waiting, short = [], size
        if at < rows:
            waiting.append(piece.part(at, rows))
            short -= rows - at
    if waiting:
        yield _group(waiting)


def _group(pieces: Sequence[Piece]) -> BatchRows:
    return joined([one.columns for one in pieces]), tuple(one.span for one in pieces)


def as_batch(group: BatchRows, shapes: Sequence[tuple[int, ...]]) -> Batch:
    """The rows as tensors. shapes: per used slot the sizes of one row, or of one value."""
    columns, spans = group
    tensors: list[Tensor] = []
    lods: list[Levels] = []
    latest: Levels = ()
    for held, offsets, shape in zip(columns.values, columns.offsets, shapes, strict=True):
        tensors.append(torch.from_numpy(held).view(-1, *shape))
        if offsets is None:
            lods.append(())
            continue
        unit = 1
        for size in shape:
            unit *= size
        level = Offsets(offsets // unit if unit > 1 else offsets)
        latest = latest if latest == (level,) else (level,)
        lods.append(latest)
    return Batch(columns.rows, tuple(tensors), tuple(lods), spans)
