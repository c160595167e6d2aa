"""The comparison of changed programs with paddle: what is changed, what counts as a difference."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from refluid.ir.program import Program
from scripts.against_paddle.__main__ import judged
from scripts.against_paddle.case import Case, Outcome, Tensor, differences
from scripts.against_paddle.cases import recorded, variations, with_gradients
from tests.golden import GOLDEN, needs_golden

ROWS = np.arange(6, dtype="float32").reshape(3, 2)


@pytest.mark.parametrize(
    "other, says",
    [
        ((ROWS, [[1, 2]]), ""),
        ((ROWS * (1 + 1e-6), [[1, 2]]), ""),
        ((ROWS * 1.01, [[1, 2]]), "numbers"),
        ((ROWS[:2], [[1, 2]]), "shape"),
        ((ROWS.astype("float64"), [[1, 2]]), "float64"),
        ((ROWS, [[2, 1]]), "sequences"),
    ],
)
def test_differences(other: Tensor, says: str) -> None:
    found = differences(Outcome([(ROWS, [[1, 2]])]), Outcome([other]), 1e-4)
    assert len(found) == bool(says)
    assert all(says in one for one in found)


def test_verdicts() -> None:
    same = Outcome([(ROWS, [])])
    failed = Outcome(error="Error: no")
    case = Case("a", "", ("mul",), b"", {}, {}, ("out",))
    known = Case("b", "", ("roll",), b"", {}, {}, ("out",))
    pairs = [(same, same), (same, Outcome([(ROWS + 1, [])])), (failed, failed), (failed, same)]
    pairs += [(same, failed), (same, failed)]
    runs = [(case, ours) for ours, _ in pairs[:5]] + [(known, same)]
    found = [verdict for verdict, _, _ in judged(runs, [theirs for _, theirs in pairs])]
    alone = ["refluid alone refuses", "paddle alone refuses"]
    assert found == ["agree", "differ", "both refuse", *alone, "not compared"]


@needs_golden
def test_changed_programs() -> None:
    chosen = [
        pair
        for pair in recorded(GOLDEN / "ops")
        if pair[0]
        in ("paddle.fluid.layers.pad-0/auto.000", "paddle.fluid.layers.sequence_pool-0/auto.000")
    ]
    random = Random(4)
    runs = [
        run for pair in chosen for run in with_gradients(variations(*pair, count=12, random=random))
    ]
    changes = {case.change for case, _ in runs}
    assert any("instead of" in change for change in changes)
    assert any("gradient" in change for change in changes)
    unchanged = [outcome for case, outcome in runs if not case.change]
    assert unchanged and not any(outcome.error for outcome in unchanged)
    for case, _ in runs:
        assert Program.parse_from_string(case.program).global_block().ops
