"""The operator benchmark: what counts as a failure, and that its cases run and agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import operators
from benchmarks.operator_cases import CASES
from benchmarks.operator_cases.case import Case, Ours, Peer, draw, gradient_like, op
from benchmarks.operator_report import Measured, markdown, slowest
from refluid.measure.timing import Times

FAST, SLOW = Times(((1.0, 1.0),)), Times(((2.0, 2.0),))
DOUBLED = Case("scale", draw(X=(4, 3)), op("scale", scale=2.0), lambda x: x * 2, ("X",))


def measured(ours: Times, theirs: Times, gap: float = 0.0, reason: str = "") -> Measured:
    return Measured("abs", "forward", ours, theirs, gap, 0.0, reason)


def test_slow_without_reason_and_wrong_numbers_are_failures() -> None:
    good = [measured(FAST, SLOW), measured(SLOW, FAST, reason="two results")]
    assert operators.failures(good, []) == []
    bad = [measured(SLOW, FAST), measured(FAST, FAST, gap=0.1)]
    found = operators.failures(bad, ["sum"])
    assert [text.split(":")[0] for text in found] == ["sum", "abs, forward", "abs, forward"]
    assert "for no known reason" in found[1] and "differ by 1e-01" in found[2]


def test_page_tells_the_slowest_and_why() -> None:
    found = [measured(FAST, SLOW), measured(SLOW, FAST, reason="two results")]
    assert slowest(found, 1) == found[1:]
    text = markdown(found, {"torch": "1"})
    assert "2.00 times as long (2.00 to 2.00) | two results" in text
    assert "faster in 1 of them, takes more than 1.3 times as long in 1" in text


def test_a_case_is_measured_forward_and_with_gradient() -> None:
    torch.set_num_threads(1)
    found = operators.measure_case(DOUBLED, 1)
    assert [one.what for one in found] == ["forward", "with gradient"]
    assert all(one.gap == 0 and one.ours.median > 0 for one in found)


def test_a_case_that_fails_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    def nothing(random: np.random.RandomState) -> Mapping[str, Any]:
        raise OSError("no inputs")

    assert operators.measure_case(Case("gone", nothing, op("scale"), abs), 1) == []
    assert "no inputs" in capsys.readouterr().err


def test_names_are_different() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case.same], ids=lambda case: case.name)
def test_both_sides_come_to_the_same_numbers(case: Case) -> None:
    ours, theirs = Ours(case, None).results(), Peer(case, None).results()
    assert operators.difference(ours, theirs) < operators.TOLERANCE
    if case.wrt:
        flowing = gradient_like(ours[0])
        gap = operators.difference(Ours(case, flowing).results(), Peer(case, flowing).results())
        assert gap < operators.TOLERANCE
