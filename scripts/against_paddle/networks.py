"""Whole random networks, most of them trained for some steps, with refluid's results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refluid.core.lod import offsets_to_lengths
from refluid.core.values import LoDTensor
from scripts.against_paddle.case import Case, Outcome, Tensor
from scripts.against_paddle.known import FIRST_STEP_ONLY, LACKING
from tests.fuzzing import values
from tests.fuzzing.judging import TIMES
from tests.fuzzing.programs import Built, Spec, build, draw_spec, feed_of
from tests.fuzzing.running import State, Trace, Way, initial, run_fed

_STEPS, _NUDGES = 4, 3
_WAY = Way("interpreted", {"FLAGS_refluid_tier": "interpreted"})
_RANDOM = frozenset(
    (
        "dropout",
        "gaussian_random",
        "uniform_random",
        "random_crop",
        "sampling_id",
        "shuffle_batch",
        "nce",
        "seed",
        "uniform_random_batch_size_like",
        "gaussian_random_batch_size_like",
        "randint",
        "randperm",
    )
)


def networks(seeds: Sequence[int]) -> Iterator[tuple[Case, Outcome] | None]:
    """One for each seed; None where paddle has not all its operators, or draws other numbers."""
    for seed in seeds:
        yield _network(seed)


def _network(seed: int) -> tuple[Case, Outcome] | None:
    spec = draw_spec(seed)
    built = build(spec)
    types = {op.type for block in built.main.blocks for op in block.ops}
    if not types.isdisjoint(_RANDOM | LACKING):
        return None
    once = not types.isdisjoint(FIRST_STEP_ONLY)
    steps = spec.steps[: 1 if once else _STEPS]
    ordinary = (replace(one, kind=values.ORDINARY, layout="plain") for one in steps)
    spec = replace(spec, steps=tuple(ordinary))
    start = initial(built)
    first, *later = ({n: _tensor(v) for n, v in feed_of(spec, one).items()} for one in spec.steps)
    case = Case(
        f"network {seed}",
        ", ".join([" ".join(built.used), *(["trained"] if built.loss else [])]),
        tuple(sorted(types)),
        built.main.serialize_to_string(),
        first,
        {name: (value, []) for name, value in start.items()},
        tuple(built.fetches),
        later=tuple(later),
        kept=() if once else tuple(sorted(start)),
    )
    return case, _outcome(spec, built, start, case.kept)


def _outcome(spec: Spec, built: Built, start: State, kept: Sequence[str]) -> Outcome:
    trace = _run(spec, built, start, _WAY)
    refused = next((one for one in trace.steps if isinstance(one, str)), "")
    if refused:
        return Outcome(error=refused)
    found = _results(trace, kept)
    apart = [0.0] * len(found)
    for number in range(_NUDGES):
        way = replace(_WAY, nudged=(1e-6, number))
        nudged = _run(spec, built, _moved(start, number), way)
        if nudged.refused:
            return Outcome(error="refused where inputs are rounded otherwise")
        apart = [*map(max, apart, map(_apart, found, _results(nudged, kept)))]
    return Outcome(found, rounding=[TIMES * one for one in apart])


def _run(spec: Spec, built: Built, start: State, way: Way) -> Trace:
    return run_fed(built, [feed_of(spec, one) for one in spec.steps], start, way, spec.seed)


def _moved(start: State, seed: int) -> State:
    """With a little added to all numbers, zeros too: an optimizer may magnify what is tiny."""
    random = np.random.RandomState(seed)
    return {
        name: value + 1e-7 * random.standard_normal(value.shape).astype(value.dtype)
        if value.dtype.kind == "f"
        else value
        for name, value in start.items()
    }


def _results(trace: Trace, kept: Sequence[str]) -> list[Tensor | None]:
    fetched = [one for step in trace.steps if not isinstance(step, str) for [one] in step]
    return [*map(_fetched, fetched), *((trace.state[name], []) for name in kept)]


def _fetched(value: Any) -> Tensor | None:
    """None for rows of a table, which paddle doesn't give."""
    array, lod = value
    return None if lod and isinstance(lod[0], int) else (array, offsets_to_lengths(lod))


def _apart(one: Tensor | None, other: Tensor | None) -> float:
    if one is None or other is None:
        return 0.0
    if one[0].shape != other[0].shape:
        return float("inf")
    with np.errstate(all="ignore"):
        apart = np.abs(one[0].astype("float64") - other[0].astype("float64"))
    return float(np.nan_to_num(apart, nan=0.0).max(initial=0.0))


def _tensor(value: Any) -> Tensor:
    if isinstance(value, LoDTensor):
        return np.array(value), value.recursive_sequence_lengths()
    return np.ascontiguousarray(value), []
