"""Exchanges of gradients go on while later gradients are computed, whatever their size."""

from __future__ import annotations

from pathlib import Path

from tests.collective.jobs import as_trainers
from tests.collective.overlapping import plan_lines


def test_no_update_comes_before_all_exchanges_are_begun(tmp_path: Path) -> None:
    for lines in as_trainers(2, plan_lines, folder=tmp_path):
        assert isinstance(lines, list), lines
        last = max(at for at, kind in enumerate(lines) if kind == "begins")
        assert lines.count("begins") == lines.count("waits") == 3, lines
        assert "waits" not in lines[:last] and "updates" not in lines[:last], lines
