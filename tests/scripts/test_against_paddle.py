"""The comparison of changed programs with paddle: what is changed, what counts as a difference."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from refluid.ir.program import Program
from scripts.against_paddle.__main__ import judged
from scripts.against_paddle.case import Case, Outcome, Tensor, differences
from scripts.against_paddle.cases import recorded, variations, with_gradients
from scripts.against_paddle.networks import networks
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


def test_rounding_widens_what_may_differ() -> None:
    far = Outcome([(ROWS + 0.01, [])])
    assert differences(Outcome([(ROWS, [])]), far, 1e-4)
    assert not differences(Outcome([(ROWS, [])], rounding=[0.02]), far, 1e-4)


@pytest.mark.slow
def test_networks() -> None:
    runs = [one for one in networks(range(40)) if one is not None]
    assert len(runs) > 10
    ran = [(case, ours) for case, ours in runs if not ours.error]
    assert any(case.later and case.kept for case, _ in ran)  # trained for several steps
    for case, ours in ran:
        assert Program.parse_from_string(case.program).global_block().ops
        count = len(case.fetches) * (1 + len(case.later)) + len(case.kept)
        assert len(ours.tensors) == len(ours.rounding) == count
        assert all(np.isfinite(one) for one in ours.rounding)
    (case, ours) = next((case, ours) for case, ours in ran if case.kept)
    same = Outcome(list(ours.tensors))
    array, lengths = next(one for one in ours.tensors if one is not None)
    other = Outcome([(array + 1, lengths), *ours.tensors[1:]])
    verdicts = [verdict for verdict, _, _ in judged([(case, ours)] * 2, [same, other])]
    assert verdicts == ["agree", "differ"]
