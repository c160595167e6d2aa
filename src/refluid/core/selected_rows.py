"""`SelectedRows`: some rows of a tall matrix, the form of sparse gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensor
from refluid.kernels.rows.merging import merge_rows

if TYPE_CHECKING:
    from refluid.kernels.rows.ids import RowPlaces


class SelectedRows:
    """Rows `rows[i]` -> `value[i]` of a tensor of `height` rows; equal rows add up.

    `rows` is a list or an int64 tensor of n row numbers, `value` a tensor of shape [n, ...].
    """

    __slots__ = ("_data", "_height", "_places", "index")

    index: torch.Tensor

    def __init__(
        self,
        rows: Sequence[int] | torch.Tensor = (),
        height: int = 0,
        value: torch.Tensor | None = None,
    ) -> None:
        self._height = int(height)
        self._data = LoDTensor(value)
        self.set_rows(rows)

    @property
    def value(self) -> torch.Tensor:
        """The rows' values, shape [n, ...]; EnforceNotMet if none were set."""
        return self._data.tensor

    def rows(self) -> list[int]:
        """The row numbers; `index` has them as an int64 tensor."""
        rows: list[int] = self.index.tolist()
        return rows

    def set_rows(self, rows: Sequence[int] | torch.Tensor) -> None:
        """Replaces the row numbers."""
        self.index = torch.as_tensor(rows, dtype=torch.int64)
        if self.index.dim() != 1:
            raise EnforceNotMet(
                f"SelectedRows takes a flat list of rows, not shape {tuple(self.index.shape)}"
            )
        self._places: RowPlaces | None = None

    def find(self, ids: torch.Tensor) -> torch.Tensor:
        """Where `value` has the rows of these ids, int64 [n], the first of equal ones; -1: nowhere.

        What it takes to know is made once for the rows that there are.
        """
        if self._places is None:
            from refluid.kernels.rows.ids import RowPlaces  # gradients are never looked up

            self._places = RowPlaces(self.index)
        return self._places.find(ids).to(ids.device)

    def height(self) -> int:
        """The number of rows of the dense tensor this stands for."""
        return self._height

    def set_height(self, height: int) -> None:
        """Replaces the height."""
        self._height = int(height)

    def get_tensor(self) -> LoDTensor:
        """The values as a LoDTensor; `set` on it changes this object."""
        return self._data

    def numel(self) -> int:
        """The number of stored elements."""
        return self.value.numel()

    def sync_index(self) -> None:
        """Kept for Fluid's programs: the rows are always in step here."""

    def with_value(self, value: torch.Tensor) -> SelectedRows:
        """The same rows with other values."""
        return SelectedRows(self.index, self._height, value)

    def clone(self) -> SelectedRows:
        """A copy that shares no memory."""
        return SelectedRows(self.index.clone(), self._height, self.value.clone())

    @staticmethod
    def sum(parts: Sequence[SelectedRows]) -> SelectedRows:
        """The rows of all parts, those of one after those of the other."""
        index = torch.cat([one.index for one in parts])
        return SelectedRows(index, parts[0].height(), torch.cat([one.value for one in parts]))

    def merged(self) -> SelectedRows:
        """The same tensor with each row once, ascending; values of equal rows added."""
        rows, value = merge_rows(self.index, self.value, self._height)
        return SelectedRows(rows, self._height, value)

    def summed(self) -> SelectedRows:
        """The same rows, ascending and as many: of a row that is there twice both are the sum.

        Unlike `merged` it reads nothing from the device, which would wait for all that runs there.
        """
        if not len(self.index):
            return self
        index, order = self.index.sort()
        group = torch.nn.functional.pad((index[1:] != index[:-1]).cumsum(0), (1, 0))
        sums = torch.zeros_like(self.value)
        sums.index_put_((group,), self.value[order], accumulate=True)
        return SelectedRows(index, self._height, sums[group])

    def to_dense(self) -> torch.Tensor:
        """The tensor of shape [height, ...] with all other rows zero; equal rows are added.

        Raises EnforceNotMet where rows and values differ in number or a row is not in the height.
        """
        self._check()
        dense = self.value.new_zeros((self._height, *self.value.shape[1:]))
        return dense.index_add_(0, self.index.to(dense.device), self.value)

    def _check(self) -> None:
        count, found = self.index.numel(), self.value.shape[0] if self.value.dim() else 0
        if count != found:
            raise EnforceNotMet(f"SelectedRows has {count} row numbers but {found} rows of values")
        if self.index.device.type != "cpu":
            return  # kernels check the range there; reading it would wait for all that runs
        if count and not (int(self.index.min()) >= 0 and int(self.index.max()) < self._height):
            raise EnforceNotMet(
                f"SelectedRows has rows {int(self.index.min())}..{int(self.index.max())} "
                f"but its height is {self._height}"
            )

    def __str__(self) -> str:
        return f"\trows: {self.rows()}\n\theight: {self._height}\n{self._data}"

    __repr__ = __str__
