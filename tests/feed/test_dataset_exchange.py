"""Rows dealt anew among trainers: each once over all of them, whatever happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid.comm import Communicator
from refluid.comm.values import gather_values
from refluid.core.errors import EnforceNotMet, PeerFailed
from refluid.feed.multislot.columns import Columns
from refluid.feed.multislot.parsing import LineSlot
from refluid.feed.text_datasets.exchange import exchange
from refluid.feed.text_datasets.memory import DatasetMemory, load
from refluid.feed.text_datasets.reading import RowSource
from tests.choices import crossed
from tests.comm.groups import as_processes as as_group
from tests.feed.leftovers import assert_nothing_left

SLOTS = (LineSlot("id", "int64", 1), LineSlot("words", "int64"), LineSlot("x", "float32", 2))


def memory(folder: Path, start: int, count: int) -> DatasetMemory:
    path = folder / f"{start}"
    path.write_text(
        "".join(
            f"1 {k} {k % 3 + 1}{f' {k}' * (k % 3 + 1)} 2 {k} .5\n"
            for k in range(start, start + count)
        )
    )
    return load(RowSource((str(path),), SLOTS), 1)


def ids(columns: Columns) -> list[int]:
    """The ids, whose words and numbers must belong to them."""
    own, words, x = columns.values
    offsets = columns.offsets[1]
    assert offsets is not None
    assert (np.diff(offsets) == own % 3 + 1).all()
    assert (np.repeat(own, own % 3 + 1) == words).all()
    assert (x == np.stack([own, np.full(len(own), 0.5)], 1).ravel()).all()
    found: list[int] = own.tolist()
    return found


SIZES = [(100, 100), (0, 7), (1000, 0, 1), (333, 334, 1, 5), (0, 0)]


@pytest.mark.parametrize(
    ("at_once", "sizes"),
    crossed(
        [1024, 10],
        SIZES,
        fast=[(10, SIZES[0]), (10, SIZES[1]), (1024, SIZES[2]), (10, SIZES[3]), (1024, SIZES[4])],
    ),
)
def test_rows_are_at_one_trainer_each(tmp_path: Path, sizes: Any, at_once: int) -> None:
    starts = np.cumsum([0, *sizes]).tolist()
    held = [memory(tmp_path, start, n).held for start, n in zip(starts, sizes, strict=False)]

    def work(comm: Communicator) -> Any:
        return ids(exchange(held[comm.rank], comm, [7], at_once))

    first, second = (as_group(len(sizes), work) for _ in range(2))
    total = sum(sizes)
    assert sorted(row for rows in first for row in rows) == list(range(total))
    assert {len(rows) for rows in first} <= {total // len(sizes), -(-total // len(sizes))}
    assert first == second
    if total > 200:
        assert all(ids(one) != rows for one, rows in zip(held, first, strict=True))
    assert_nothing_left()


def test_a_trainer_that_goes_away_in_between(tmp_path: Path) -> None:
    held = [memory(tmp_path, 1000 * k, 1000).held for k in range(3)]

    def work(comm: Communicator) -> Any:
        if comm.rank == 1:
            slots = [["int64", 1], ["int64", 0], ["float32", 2]]
            gather_values(comm, {"rows": 1000, "slots": slots})
            return None
        return exchange(held[comm.rank], comm, [7], 10)

    first, _, third = as_group(3, work)
    assert isinstance(first, PeerFailed) and isinstance(third, PeerFailed)
    assert "went away" in str(first) + str(third)
    assert_nothing_left()


def test_trainers_with_other_slots(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("1 5\n")
    held = [memory(tmp_path, 0, 5).held, load(RowSource((str(other),), SLOTS[:1]), 1).held]
    for error in as_group(2, lambda comm: exchange(held[comm.rank], comm, [1], 10)):
        assert isinstance(error, EnforceNotMet) and "rows of different slots" in str(error)
