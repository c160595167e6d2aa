"""Tables, rows and values drawn at random."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]
SEEDS = range(40)
_FITS = {np.float32: 1e-5, np.float64: 1e-12}


class Case(NamedTuple):
    table: Array
    rows: Array
    value: Array
    draws: np.random.Generator

    @property
    def height(self) -> int:
        return len(self.table)

    def fits(self, found: Tensor, wanted: Array) -> None:
        close = _FITS[self.table.dtype.type]
        np.testing.assert_allclose(found.numpy(), wanted, rtol=close, atol=close)
        assert found.numpy().dtype == self.table.dtype


def drawn(seed: int) -> Case:
    draws = np.random.default_rng(seed)
    kind = (np.float32, np.float64)[seed % 2]
    height = int(draws.choice([1, 2, 7, 300, 5000, 3_000_000]))
    width, count = int(draws.integers(1, 20 if height < 10_000 else 3)), int(draws.integers(0, 200))
    near = draws.integers(0, min(height, 9), count)
    rows = np.where(draws.random(count) < 0.5, near, draws.integers(0, height, count))
    table = draws.standard_normal((height, width)).astype(kind)
    return Case(table, rows, draws.standard_normal((count, width)).astype(kind), draws)


def tensors(*arrays: Array) -> list[Tensor]:
    return [torch.from_numpy(one.copy()) for one in arrays]
