"""What is kept of tuning beside exhaustive search, and its table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import tuning
from refluid.tune.space import SPACE, Proposal

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
    assert tuning.recorded(narrow) == {"mlp"} and tuning.recorded(FACTS) == {"mlp", "lstm"}
    assert tuning.recorded(FACTS | {"refluid": "0.2.0"}) == set()


def test_every_choice_is_in_some_combination() -> None:
    joined = next(row for row in SPACE if row.joined)
    plain = next(row for row in SPACE if row.name == "FLAGS_refluid_onednn_from")
    planned = [Proposal(joined, one) for one in ("conv2d", "mul")]
    planned += [Proposal(plain, one) for one in (1, 2)]
    every = tuning.combinations(planned)
    assert len(every) == 2 * 2 * 3 == len({repr(one) for one in every})
    assert any("conv2d,mul" in repr(one) for one in every)


def test_the_table_says_what_a_whole_search_would_take() -> None:
    text = tuning.table([{"result": tuning.asdict(ONE), "facts": FACTS}])
    assert (
        "| mlp | 1,024 | 0.80 (0.70 to 0.90) | 0.75 (0.70 to 0.80) | 1.01 (0.90 to 1.10) | 40 "
        "| 1,600 (64 measured) | a\\_b=1 |"
    ) in text
    assert "| **2 cores of this, AVX512** |" in text
    assert text.endswith("Measured: 2026-01-01; refluid 0.1.0 (1234567).")
