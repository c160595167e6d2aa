"""Who gets a row of a table: by how often its id came, or by chance.

An entry is the text that `paddle.distributed.CountFilterEntry` and its kin put into programs:
`none`, `count_filter_entry:10`, `probability_entry:0.1`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.kernels.rows.draws import CONSTANT, UNIFORM, RowDraws
from refluid.pserver.ring import stable_hash
from refluid.pserver.sparse_table import SparseTable
from refluid.pserver.table_spec import Admission, TableSpec

_SCANNED = 2**20
# Makes the table that an admission counts in.
MakeCounts = Callable[[TableSpec], SparseTable]


class AdmissionByCount:
    """An id gets its row once it came `least` times: once with each update that has it.

    counts: a table of one column; 0 says as much as no row.
    """

    def __init__(self, least: int, counts: SparseTable) -> None:
        self._least, self.counts, self._zeros = least, counts, 0

    def admit(self, ids: Tensor) -> Tensor:
        counts = self.counts
        counts.add(ids, torch.ones((len(ids), 1), dtype=counts.spec.dtype))
        chosen = counts.peek(ids)[:, 0] >= self._least
        admitted = ids[chosen]
        if len(admitted):
            counts.put(admitted, {counts.spec.name: torch.zeros(len(admitted), 1)})
            self._zeros += len(admitted)
            if 2 * self._zeros > counts.rows:
                self._drop_zeros()
        return chosen

    def _drop_zeros(self) -> None:
        gone = [ids[kept[self.counts.spec.name][:, 0] == 0] for ids, kept in self._all()]
        self.counts.forget(torch.cat(gone))
        self._zeros = 0

    def _all(self) -> list[tuple[Tensor, dict[str, Tensor]]]:
        return list(self.counts.chunks(_SCANNED))

    def end_pass(self) -> None:
        if self.counts.eviction is not None:
            self.counts.end_pass()


class AdmissionByChance:
    """A share of all ids gets rows; which ones follows from the table's name and the id."""

    counts = None

    def __init__(self, share: float, seed: int) -> None:
        self._share, self._draws = share, RowDraws(UNIFORM, 0.0, 1.0, seed)

    def admit(self, ids: Tensor) -> Tensor:
        drawn = torch.empty((len(ids), 1), dtype=torch.float64)
        self._draws.fill(ids, drawn)
        return drawn[:, 0] < self._share

    def end_pass(self) -> None:
        """It remembers nothing."""


def admission_of(entry: str, table: str, make: MakeCounts) -> Admission | None:
    """The admission that an entry asks for, if any. EnforceNotMet for an entry unknown here."""
    kind, number = read_entry(entry, table)
    if kind == _BY_CHANCE:
        return AdmissionByChance(number, stable_hash(f"{table}@ENTRY"))
    if kind != _BY_COUNT or number < 2:
        return None
    name = f"{table}@COUNT"
    spec = TableSpec(name, torch.float32, {name: 1}, {name: RowDraws(CONSTANT)}, None)
    return AdmissionByCount(int(number), make(spec))


def read_entry(entry: str, table: str) -> tuple[str, float]:
    """The kind and number of a table's entry. EnforceNotMet for one unknown here."""
    kind, _, value = entry.partition(":")
    fits = _ENTRIES.get(kind)
    try:
        number = float(value or 0)
    except ValueError:
        fits = None
    if fits is None or not fits(number):
        raise EnforceNotMet(
            f"table {table} has the entry {entry!r}: servers admit rows by count_filter_entry:N "
            "and probability_entry:P with P in (0, 1)"
        )
    return kind, number


_BY_COUNT, _BY_CHANCE = "count_filter_entry", "probability_entry"
# What the number of each kind may be.
_ENTRIES: dict[str, Callable[[float], bool]] = {
    "": lambda number: not number,
    "none": lambda number: not number,
    _BY_COUNT: lambda number: number >= 0 and number.is_integer(),
    _BY_CHANCE: lambda number: 0.0 < number < 1.0,
}
