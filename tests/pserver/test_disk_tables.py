"""Tables on disk have the numbers of those in memory, and after a crash those of their commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.pserver.row_policies import admission_of
from refluid.pserver.sparse_table import SparseTable
from refluid.pserver.table_spec import LAST, Eviction, TableSpec
from tests.pserver.test_row_policies import rate, spec

pytest.importorskip("lmdb")

from refluid.pserver.disk_rows import RowStore, emptied
from refluid.pserver.disk_table import DiskTable
from tests.choices import often

OPTIMIZERS = {
    "sgd": None,
    "adam": fluid.optimizer.Adam(0.1, lazy_mode=True),
    "momentum": fluid.optimizer.Momentum(0.1, 0.9),
}
OTHERS = {"beta1_pow_acc": 0.9, "beta2_pow_acc": 0.999}


def numbers(name: str) -> torch.Tensor:
    """Learning rate and powers of Adam's betas."""
    found = [value for part, value in OTHERS.items() if part in name]
    return torch.tensor(found or [1.0])


def evictions(passes: int, most: int) -> list[Eviction | None]:
    """Of a table and of its counts."""
    found = Eviction(passes, most), Eviction(passes)
    return [one if passes or most else None for one in found]


def on_disk(
    given: TableSpec, store: RowStore, memory: int, entry: str, passes: int, most: int = 0
) -> DiskTable:
    eviction, counted = evictions(passes, most)

    def counts(one: TableSpec) -> SparseTable:
        return DiskTable(one, store, memory, None, counted)

    return DiskTable(given, store, memory, admission_of(entry, "emb", counts), eviction)


def in_memory(given: TableSpec, entry: str, passes: int, most: int = 0) -> SparseTable:
    eviction, counted = evictions(passes, most)
    admission = admission_of(entry, "emb", lambda one: SparseTable(one, None, counted))
    return SparseTable(given, admission, eviction)


def content(table: SparseTable) -> list[Any]:
    """All rows by id."""
    found = list(table.chunks(17)) or [table.chunk(0, 1)]
    ids, order = torch.cat([ids for ids, _ in found]).sort()
    names = list(found[0][1])
    return [ids, *(torch.cat([kept[name] for _, kept in found])[order] for name in names)]


def same(one: SparseTable, other: SparseTable) -> None:
    for own, reference in zip(one.parts(), other.parts(), strict=True):
        assert own.marks() == reference.marks()
        for value, known in zip(content(own), content(reference), strict=True):
            assert torch.equal(value, known)


def step(draws: np.random.RandomState, ids: torch.Tensor, *tables: SparseTable) -> None:
    """One change of all tables alike."""
    value = torch.tensor(draws.randn(len(ids), 4).astype("f4"))
    how = draws.choice(["update", "update", "update", "add", "put", "forget"])
    for table in tables:
        if how == "update":
            table.update(ids, value, numbers)
        elif how == "add":
            table.add(ids, value)
        elif how == "put":
            first = ids.unique()
            table.put(first, {"emb": value[: len(first)]})
        else:
            table.forget(ids[:3])


@pytest.mark.parametrize("case", often(range(12), [0, 1, 2, 5]))
def test_random_streams_as_in_memory(
    case: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = np.random.RandomState(case)
    monkeypatch.setattr("refluid.pserver.disk_rows._GIVES_BACK", 0 if case % 2 else 2**14)
    given = spec(OPTIMIZERS[draws.choice(list(OPTIMIZERS))])
    entry = str(draws.choice(["", "count_filter_entry:2", "probability_entry:0.5"]))
    passes, memory = int(draws.choice([0, 2])), int(draws.choice([1, 2000, 20_000]))
    most = int(draws.choice([0, 0, 100]))
    store = RowStore(tmp_path)
    disk, reference = (
        on_disk(given, store, memory, entry, passes, most),
        in_memory(given, entry, passes, most),
    )
    universe = draws.randint(-(2**63), 2**63 - 1, 400)
    committed = in_memory(given, entry, passes, most)
    for number in range(1, 80):
        ids = torch.tensor(draws.choice(universe, draws.randint(0, 80)))
        step(draws, ids, disk, reference)
        some = torch.tensor(draws.choice(universe, 30))
        assert torch.equal(disk.peek(some), reference.peek(some))
        assert torch.equal(disk.look_up(some), reference.peek(some))
        assert disk.rows == reference.rows
        if (passes or most) and draws.rand() < 0.1:
            assert disk.end_pass() == reference.end_pass()
        if draws.rand() < 0.1:
            for part in disk.parts():
                part.flush()  # type: ignore[attr-defined]
            store.commit(number)
            committed = in_memory(given, entry, passes, most)
            for own, former in zip(committed.parts(), reference.parts(), strict=True):
                own.set_marks(former.marks())
                for chunk in former.chunks(100):
                    own.put(*chunk)
        if draws.rand() < 0.05:
            store.close()  # a crash: what came after the commit is gone
            store = RowStore(tmp_path)
            disk = on_disk(given, store, memory, entry, passes, most)
            for own, former in zip(disk.parts(), committed.parts(), strict=True):
                own.set_marks(former.marks())
            same(disk, committed)
            disk, reference = restarted(disk, committed, given, entry, passes, most)
    same(disk, reference)
    store.close()


def restarted(disk: DiskTable, committed: SparseTable, *how: Any) -> tuple[DiskTable, SparseTable]:
    """The table from disk, and a copy of what it goes on from."""
    made = in_memory(*how)
    for own, former in zip(made.parts(), committed.parts(), strict=True):
        own.set_marks(former.marks())
        for chunk in former.chunks(100):
            own.put(*chunk)
    return disk, made


def test_no_more_rows_in_memory_than_it_may_have(tmp_path: Path) -> None:
    store = RowStore(tmp_path)
    table = DiskTable(spec(), store, 100_000)
    assert 200 < table.room < 1500
    for start in range(0, 20_000, 100):
        table.update(torch.arange(start, start + 100), torch.ones(100, 4), rate)
        assert table.rows_in_memory <= table.room
        assert table.nbytes <= 100_000 + 20_000  # the smallest map of ids
    assert table.rows == 20_000
    assert torch.equal(table.peek(torch.arange(20_000)), in_memory_of(20_000))
    big = torch.arange(5 * table.room)
    assert torch.equal(table.look_up(big[:20_000]), in_memory_of(20_000)[: len(big)])
    store.close()


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux tells what is mapped")
def test_pages_of_the_file_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RowStore(tmp_path)
    table = DiskTable(spec(), store, 100_000)
    ids = torch.arange(50_000)
    table.update(ids, torch.ones(len(ids), 4), rate)
    table.flush()
    store.commit(1)
    table = DiskTable(spec(), store, 100_000)

    def mapped() -> int:
        lines = Path("/proc/self/smaps").read_text().splitlines()
        (place,) = (number for number, one in enumerate(lines) if str(tmp_path) in one)
        (size,) = (one for one in lines[place : place + 6] if one.startswith("Rss"))
        return int(size.split()[1])

    monkeypatch.setattr("refluid.pserver.disk_rows._GIVES_BACK", 2**40)
    expected = table.peek(ids)
    before = mapped()
    assert before > 500
    monkeypatch.setattr("refluid.pserver.disk_rows._GIVES_BACK", 0)
    DiskTable(spec(), store, 100_000).peek(ids[:100])
    assert mapped() < before / 5
    assert torch.equal(DiskTable(spec(), store, 100_000).peek(ids), expected)
    store.close()


def in_memory_of(count: int) -> torch.Tensor:
    table = SparseTable(spec())
    ids = torch.arange(count)
    table.update(ids, torch.ones(count, 4), rate)
    return table.peek(ids)


def test_rows_that_are_used_stay_in_memory(tmp_path: Path) -> None:
    store = RowStore(tmp_path)
    table = DiskTable(spec(), store, 100_000)
    often = torch.arange(50)
    table.update(often, torch.ones(50, 4), rate)
    for start in range(1000, 10_000, 50):
        table.update(torch.arange(start, start + 50), torch.ones(50, 4), rate)
        table.look_up(often)
        assert table._map.find(often)[1] == 0
    store.close()


def test_a_store_that_is_emptied_begins_anew(tmp_path: Path) -> None:
    store = RowStore(tmp_path)
    table = DiskTable(spec(), store, 1000, None, Eviction(1))
    table.update(torch.arange(10), torch.ones(10, 4), rate)
    table.flush()
    store.commit(3)
    assert content(table)[2].unique().tolist() == [1] and LAST in table._kept
    store.close()
    again = RowStore(tmp_path)
    assert again.commits == 3 and again.nbytes > 0
    again.close()
    fresh = RowStore(emptied(tmp_path))
    assert fresh.commits == 0
    assert DiskTable(spec(), fresh, 1000).rows == 0
    fresh.close()
