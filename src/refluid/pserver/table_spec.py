"""What a table of rows is: its columns, who gets a row, and who loses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from refluid.kernels.rows.draws import RowDraws
from refluid.pserver.row_updates import RowUpdate

# When a row was last updated, int64, beside what optimizers keep; of tables that forget rows.
LAST = "@LAST"


@dataclass(frozen=True)
class TableSpec:
    """What a table is: columns of each variable that has rows, how their rows begin, its update.

    columns and draws have the parameter first, by name, then what its optimizer keeps.
    """

    name: str
    dtype: torch.dtype
    columns: Mapping[str, int]
    draws: Mapping[str, RowDraws]
    update: RowUpdate | None

    @cached_property
    def array_type(self) -> np.dtype[Any]:
        """`dtype` as arrays have it."""
        return np.dtype(str(self.dtype).removeprefix("torch."))


class Admission(Protocol):
    """Who gets a row. An id without one is read as its row would begin, and isn't updated."""

    def admit(self, ids: Tensor) -> Tensor:
        """Which of these ids, without a row and each once, get one now, as they come: bool [n]."""

    def end_pass(self) -> None:
        """A pass ended."""

    @property
    def counts(self) -> Any:
        """The `SparseTable` of what is remembered of ids without a row, if anything is."""


@dataclass(frozen=True)
class Eviction:
    """Who loses its row, and begins anew when it comes again.

    passes: rows that weren't updated in so many passes, unless 0. rows: if there are more, those
    whose last update is the longest ago, unless 0.
    """

    passes: int = 0
    rows: int = 0
