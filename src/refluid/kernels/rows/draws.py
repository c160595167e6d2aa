"""First values of rows that follow from (seed, id) alone, whoever draws them and in which order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from refluid.kernels.rows.ids import id_loops

CONSTANT, UNIFORM, NORMAL, TRUNCATED = "constant", "uniform", "normal", "truncated"
_MOST = {NORMAL: math.inf, TRUNCATED: 2.0}


@dataclass(frozen=True)
class RowDraws:
    """How the row of an id begins.

    kind and its two numbers: constant (the value), uniform (from, to), normal or truncated (mean,
    deviation; the latter no more than two of them off). ValueError for another kind.
    """

    kind: str
    first: float = 0.0
    second: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in (CONSTANT, UNIFORM, NORMAL, TRUNCATED):
            raise ValueError(f"rows can't begin by {self.kind!r}")

    def fill(self, ids: Tensor, out: Tensor) -> None:
        """Writes the rows of these ids to `out`, [n, width], float32 or float64, contiguous."""
        if self.kind == CONSTANT:
            out.fill_(self.first)
            return
        given = np.uint64(self.seed % 2**64), ids.numpy()
        numbers = float(self.first), float(self.second)
        if self.kind == UNIFORM:
            id_loops().draw_uniform(*given, *numbers, out.numpy())
        else:
            id_loops().draw_normal(*given, *numbers, _MOST[self.kind], out.numpy())
