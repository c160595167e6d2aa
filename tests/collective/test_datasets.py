"""Trainers of a collective fleet deal a dataset's rows among them by the job's own group."""

from __future__ import annotations

from pathlib import Path

from tests.collective.jobs import as_trainers
from tests.collective.training import shuffle


def test_a_global_shuffle_keeps_every_row_once(tmp_path: Path) -> None:
    for rank, first in enumerate((0, 100)):
        rows = range(first, first + 60)
        (tmp_path / f"part-{rank}").write_text("".join(f"1 {row}\n" for row in rows))
    found = as_trainers(2, shuffle, str(tmp_path), folder=tmp_path)
    for own in found:
        assert isinstance(own, list), own
    (one, totals), (two, others) = found
    assert sorted(one + two) == [*range(60), *range(100, 160)]
    assert totals == others == [120]
    assert min(len(one), len(two)) > 30
    assert min(one) < 60 <= 100 <= max(one) and min(two) < 60 <= 100 <= max(two)
