"""The operators that are measured, by family."""

from __future__ import annotations

from benchmarks.operator_cases import (
    boxes,
    dense,
    layers,
    loops,
    proposals,
    recurrent,
    sampled,
    sequences,
    structured,
)
from benchmarks.operator_cases.case import Case

CASES: tuple[Case, ...] = (
    *dense.CASES,
    *layers.CASES,
    *sequences.CASES,
    *recurrent.CASES,
    *structured.CASES,
    *sampled.CASES,
    *boxes.CASES,
    *proposals.CASES,
    *loops.CASES,
)
