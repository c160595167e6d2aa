"""What trainers must have alike, and what each may have of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.engine.agreement import agree_on_program
from refluid.engine.strategy import Strategy


def _program(rank: int, rows: int = 4, scale: float = 2.0) -> fluid.Program:
    """A trainer's rows of what all have gathered, beside labels that begin with its rank."""
    main, first = fluid.Program(), rank * 4
    with fluid.unique_name.guard(), fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [8, rows])
        own = fluid.layers.slice(x, axes=[0], starts=[first], ends=[first + 4])
        labels = fluid.layers.assign(np.arange(first, first + 4, dtype="int64"))
        more = fluid.layers.fill_constant([4], "int64", rank)
        fluid.layers.scale(own, scale, bias=float(rank))
        fluid.layers.elementwise_add(labels, more)
    return main


class _Told:
    """Stands for trainers: keeps what they are told to have alike."""

    def agree(self, lines: Sequence[str]) -> None:
        self.lines = list(lines)


def _said(*about: Any, **others: Any) -> list[str]:
    trainers: Any = _Told()
    agree_on_program(trainers, _program(*about, **others), Strategy(), ["x"])
    return list(trainers.lines)


def test_constants_and_own_rows_may_differ() -> None:
    assert _said(0) == _said(1)


@pytest.mark.parametrize("other", [{"rows": 5}, {"scale": 3.0}], ids=str)
def test_sizes_and_other_attributes_may_not(other: dict[str, Any]) -> None:
    assert _said(0) != _said(0, **other)
