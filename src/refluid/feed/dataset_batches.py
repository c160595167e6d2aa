"""Rows to batches, and batches to what a program is fed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from refluid.feed.multislot_columns import Columns, joined

Lod = list[list[int]]


@dataclass(frozen=True)
class Batch:
    """The tensors of some rows, one per used slot, and their LoD: none for dense slots."""

    rows: int
    tensors: tuple[Tensor, ...]
    lods: tuple[Lod, ...]


def regroup(parts: Iterable[Columns], size: int) -> Iterator[Columns]:
    """The same rows in groups of `size`, across the bounds of the parts; the last may be smaller.

    A group within one part shares its memory.
    """
    waiting: list[Columns] = []
    short = size
    for part in parts:
        at = 0
        while part.rows - at >= short:
            waiting.append(part.part(at, at + short))
            at += short
            yield joined(waiting)
            waiting, short = [], size
        if at < part.rows:
            waiting.append(part.part(at, part.rows))
            short -= part.rows - at
    if waiting:
        yield joined(waiting)


def as_batch(columns: Columns, shapes: Sequence[tuple[int, ...]]) -> Batch:
    """The rows as tensors. shapes: per used slot the sizes of one row, or of one value."""
    tensors: list[Tensor] = []
    lods: list[Lod] = []
    for held, offsets, shape in zip(columns.values, columns.offsets, shapes, strict=True):
        tensors.append(torch.from_numpy(held).view(-1, *shape))
        if offsets is None:
            lods.append([])
            continue
        unit = 1
        for size in shape:
            unit *= size
        lods.append([(offsets // unit if unit > 1 else offsets).tolist()])
    return Batch(columns.rows, tuple(tensors), tuple(lods))
