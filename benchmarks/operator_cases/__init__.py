"""The operators that are measured, by family."""

from __future__ import annotations

from benchmarks.operator_cases import (
    arranging,
    boxes,
    dense,
    editing,
    layers,
    loops,
    proposals,
    recurrent,
    regions,
    sampled,
    sequences,
    structured,
    updates,
)
from benchmarks.operator_cases.case import Case

CASES: tuple[Case, ...] = (
    *dense.CASES,
    *arranging.CASES,
    *layers.CASES,
    *sequences.CASES,
    *editing.CASES,
    *recurrent.CASES,
    *structured.CASES,
    *sampled.CASES,
    *boxes.CASES,
    *proposals.CASES,
    *regions.CASES,
    *updates.CASES,
    *loops.CASES,
)
