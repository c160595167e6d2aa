"""What is kept of tuning beside exhaustive search, and its table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import tuning

ONE = tuning.Result(
    "mlp", 1024, 64, [0.8, 0.7, 0.9], [0.75, 0.7, 0.8], [1.01, 0.9, 1.1], 40.0, 100.0, "a_b=1", "-"
)
FACTS = {"machine": "2 cores of this, AVX512", "date": "2026-01-01", "refluid": "0.1.0 (1234567)"}


def test_a_result_replaces_that_of_its_script_and_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "RESULTS", tmp_path / "tuning.json")
    narrow = FACTS | {"machine": "2 cores of this, AVX2"}
    tuning.keep(ONE, FACTS)
    tuning.keep(replace(ONE, script="lstm"), FACTS)
    tuning.keep(replace(ONE, tuning_seconds=30.0), FACTS)
    tuning.keep(ONE, narrow)
    kept = tuning.kept()
    assert [(*tuning._whose(one), one["result"]["tuning_seconds"]) for one in kept] == [
        ("lstm", FACTS["machine"], 40.0),
        ("mlp", narrow["machine"], 40.0),
        ("mlp", FACTS["machine"], 30.0),
    ]


def test_the_table_says_what_a_whole_search_would_take() -> None:
    text = tuning.table([{"result": tuning.asdict(ONE), "facts": FACTS}])
    assert (
        "| mlp | 1,024 | 0.80 (0.70 to 0.90) | 0.75 (0.70 to 0.80) | 1.01 (0.90 to 1.10) | 40 "
        "| 1,600 (64 measured) | a\\_b=1 |"
    ) in text
    assert "| **2 cores of this, AVX512** |" in text
    assert text.endswith("Measured: 2026-01-01; refluid 0.1.0 (1234567).")
