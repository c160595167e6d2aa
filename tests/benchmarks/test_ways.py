"""Ways of training a network in one process: all run in turns, and are set beside each other."""

from __future__ import annotations

import pytest

from benchmarks import ways
from benchmarks.suite.rivals import DECLARATIVE, DYGRAPH, EAGER, REFLUID
from benchmarks.suite.workloads import WORKLOADS
from refluid.fluid import dygraph
from refluid.measure.timing import Times


def test_ratios_are_of_blocks_of_one_round() -> None:
    one, other = Times(((1.0,), (2.0,), (4.0,))), Times(((2.0,), (4.0,), (8.0,)))
    rows = dict(ways.rows_of({EAGER: one, DYGRAPH: other}))
    assert rows["PyTorch eager"] == "2000 ms"
    assert rows["refluid dygraph / PyTorch eager"] == "2.00 (2.00 to 2.00)"
    assert len(rows) == 3


def test_all_train_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "SECONDS", 0.0)
    try:
        found = ways.measured(WORKLOADS["mlp"], 1, 3)
    finally:
        dygraph.disable_dygraph()
    assert list(found) == [REFLUID, EAGER, DYGRAPH, DECLARATIVE]
    for times in found.values():
        assert [len(block) for block in times.blocks] == [ways.LEAST] * 3
        assert times.median > 0
