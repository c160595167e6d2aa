"""Sums of gradients over the runs of a loop's body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.core.selected_rows import SelectedRows


def joined_rows(uses: Sequence[Sequence[Any]], rows: Sequence[bool]) -> list[Any]:
    """Of several uses' values those that have rows, one below the other; others are all alike."""
    if len(uses) == 1:
        return list(uses[0])
    return [
        torch.cat(several) if has else several[0]
        for has, several in zip(rows, zip(*uses, strict=True), strict=True)
    ]


def no_rows(table: Tensor) -> SelectedRows:
    """A gradient of a table that has none of its rows."""
    return SelectedRows((), len(table), table.new_empty((0, *table.shape[1:])))


class Accumulator:
    """Adds up tensors or sparse rows as they come; the first one is never overwritten."""

    __slots__ = ("_own", "_parts", "_total")

    def __init__(self) -> None:
        self._total: Tensor | None = None
        self._own = False
        self._parts: list[SelectedRows] = []

    def add(self, value: Any) -> None:
        """Adds one term; None counts for nothing."""
        if value is None:
            return
        if isinstance(value, SelectedRows):
            self._parts.append(value)
        elif self._total is None:
            self._total = value
        elif self._own:
            self._total += value
        else:
            self._total, self._own = self._total + value, True

    def result(self, like: Any, rows: bool = False) -> Any:
        """The sum; where nothing was added zeros shaped as `like`, or none of its `rows`."""
        if self._parts and self._total is None:
            return SelectedRows.sum(self._parts)
        if self._total is None:
            return no_rows(like) if rows else torch.zeros_like(like)
        total = self._total
        for part in self._parts:
            total = total + part.to_dense()
        return total
