"""Rows admitted by count and chance, and forgotten, against a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from refluid.pserver.row_policies import AdmissionByCount, admission_of
from refluid.pserver.server_making import table_server
from refluid.pserver.sparse_table import SparseTable
from refluid.pserver.table_spec import Eviction, TableSpec
from tests.choices import often
from tests.pserver.tables import divided

MANY = torch.arange(20_000) * 7919


def spec(optimizer: Any = None) -> TableSpec:
    """Of a table whose rows begin as normal numbers, updated by SGD at rate 1."""
    normal = fluid.initializer.Normal(0.0, 0.1)
    parts = divided(initializer=normal, optimizer=optimizer)
    (name,), scope = parts.layout.servers, fluid.Scope()
    fluid.Executor().run(parts.startup(name), scope=scope)
    return table_server(parts.program(name), parts.layout, scope).tables.sparse["emb"].spec


def rate(_name: str) -> torch.Tensor:
    """The learning rate."""
    return torch.ones(1)


def table(entry: str = "", eviction: Eviction | None = None) -> SparseTable:
    counts = None if eviction is None else Eviction(eviction.passes)
    admission = admission_of(entry, "emb", lambda one: SparseTable(one, None, counts))
    return SparseTable(spec(), admission, eviction)


class Dictionary:
    """The same by a dictionary: id -> (what was added to its row, when it was updated last)."""

    def __init__(self, least: int, passes: int, most: int) -> None:
        self.least, self.passes, self.most = least, passes, most
        self.rows: dict[int, list[Any]] = {}
        self.counts: dict[int, list[int]] = {}
        self.clock = self.number = 0
        self.ends = [0]

    def update(self, ids: list[int], gradient: np.ndarray[Any, Any]) -> None:
        self.clock += 1
        for one in dict.fromkeys(ids):
            if one not in self.rows:
                count = self.counts.setdefault(one, [0, 0])
                count[0] += 1
                count[1] = self.number
                if count[0] < self.least:
                    continue
                del self.counts[one]
                self.rows[one] = [np.zeros(4), 0]
            total = sum(value for other, value in zip(ids, gradient, strict=True) if other == one)
            self.rows[one][0] = self.rows[one][0] - total
            self.rows[one][1] = self.clock
        if self.most and len(self.rows) > self.most:
            last = sorted(row[1] for row in self.rows.values())
            oldest = min(last[len(last) - int(self.most * 0.9) - 1], self.clock - 1)
            self.rows = {one: row for one, row in self.rows.items() if row[1] > oldest}

    def end_pass(self) -> None:
        self.number += 1
        self.ends.append(self.clock)
        if self.passes and len(self.ends) > self.passes:
            before = self.ends[-1 - self.passes]
            self.rows = {one: row for one, row in self.rows.items() if row[1] > before}
            seen = self.number - self.passes
            self.counts = {one: row for one, row in self.counts.items() if row[1] >= seen}


@pytest.mark.parametrize("case", often(range(24), range(8)))
def test_random_updates_as_a_dictionary(case: int) -> None:
    draws = np.random.RandomState(case)
    least = int(draws.choice([0, 1, 2, 4]))
    passes, most = int(draws.choice([0, 1, 3])), int(draws.choice([0, 20, 200]))
    own = table(f"count_filter_entry:{least}", Eviction(passes, most))
    known, fresh = Dictionary(least, passes, most), table()
    universe = draws.randint(-(2**63), 2**63 - 1, 300)
    for step in range(60):
        ids = draws.choice(universe[: 5 + 5 * step], draws.randint(0, 60))
        gradient = draws.randint(-4, 5, (len(ids), 4)).astype("f4")
        own.update(torch.tensor(ids), torch.tensor(gradient), rate)
        known.update(ids.tolist(), gradient)
        if draws.rand() < 0.2:
            own.end_pass()
            known.end_pass()
        assert own.rows == len(known.rows)
        if step % 20 == 7:
            own = again(own, least, Eviction(passes, most))
        everyone = torch.tensor(universe)
        begun = fresh.peek(everyone)
        nothing = (np.zeros(4), 0)
        added = np.stack([known.rows.get(one, nothing)[0] for one in universe.tolist()])
        for read in (own.look_up, own.peek):
            np.testing.assert_allclose(read(everyone), begun + torch.tensor(added), atol=1e-4)


def again(former: SparseTable, least: int, eviction: Eviction) -> SparseTable:
    """A table that was given what a checkpoint has of another."""
    made = table(f"count_filter_entry:{least}", eviction)
    for part, one in zip(made.parts(), former.parts(), strict=True):
        for ids, kept in one.chunks(7):
            part.put(ids, kept)
        part.set_marks(one.marks())
    return made


def test_rates_are_looked_up_once_updates_reach_a_row() -> None:
    own = table("count_filter_entry:3")
    ids, gradient = torch.tensor([5, 5]), torch.ones(2, 4)
    begun = own.look_up(ids)
    for expected in (0.0, 0.0, -2.0, -4.0):
        own.update(ids, gradient, rate)
        torch.testing.assert_close(own.look_up(ids), begun + expected)


def test_counts_of_ids_with_a_row_are_dropped() -> None:
    own = table("count_filter_entry:2")
    for start in range(0, 1000, 10):
        ids = torch.arange(start, start + 10)
        for _ in range(2):
            own.update(ids, torch.ones(10, 4), rate)
    assert own.rows == 1000
    assert isinstance(own.admission, AdmissionByCount)
    assert own.admission.counts.rows < 100


@pytest.mark.parametrize("share", [0.1, 0.7])
def test_a_share_of_ids_by_chance(share: float) -> None:
    own, other = (table(f"probability_entry:{share}") for _ in range(2))
    for one, ids in ((own, MANY), (other, MANY.flip(0))):
        for _ in range(3):
            one.update(ids, torch.ones(len(ids), 4), rate)
    assert own.rows == other.rows
    assert abs(own.rows / len(MANY) - share) < 0.02
    torch.testing.assert_close(own.peek(MANY), other.peek(MANY))
    moved = (own.peek(MANY) - table().peek(MANY))[:, 0]
    assert set(moved.round().tolist()) == {0.0, -3.0}


def test_what_cannot_be() -> None:
    for entry in ("count_filter_entry:x", "probability_entry:1.0", "show_click_entry:a:b"):
        with pytest.raises(EnforceNotMet, match="servers admit rows by"):
            table(entry)
    with pytest.raises(EnforceNotMet, match="REFLUID_TABLE_PASSES"):
        table().end_pass()
