"""Replays a recording and says how far refluid's numbers are from Fluid's."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from refluid.cli.recordings import Array, Recording, Value
from refluid.core.places import CPUPlace
from refluid.core.values import LoDTensor
from refluid.fluid.executor import Executor
from refluid.ir.program import Program
from refluid.ops import registry
from refluid.runtime.control import CONTROL, FEEDING
from refluid.runtime.scope import Scope

OPERATOR_BOUND = 1e-5
STEP_BOUND = 1e-4
DIGEST_BOUND = 1e-3
_FLOOR = 1e-7


@dataclass(frozen=True)
class Outcome:
    """How one recording went. max_error is relative, None where nothing could be compared."""

    case: str
    passed: bool
    max_error: float | None
    seconds: float
    reason: str = ""


class MismatchError(Exception):
    """A value differs in more than rounding."""


def missing_operators(programs: Iterable[Program]) -> list[str]:
    """Operator types of the programs that refluid doesn't have."""
    types = {op.type for program in programs for block in program.blocks for op in block.ops}
    known = CONTROL.keys() | FEEDING
    return sorted(kind for kind in types if registry.find(kind) is None and kind not in known)


def replay(recording: Recording, case: str) -> Outcome:
    """Runs all steps of a recording and compares fetches, changed state and digests."""
    start = time.perf_counter()

    def outcome(passed: bool, error: float | None, reason: str = "") -> Outcome:
        return Outcome(case, passed, error, time.perf_counter() - start, reason)

    missing = missing_operators(recording.programs.values())
    if missing:
        return outcome(False, None, "operators missing: " + ", ".join(missing))
    if recording.parallel is not None:
        places = recording.parallel.get("places")
        return outcome(False, None, f"needs data parallel execution on {places} places")
    try:
        error = _run(recording)
    except MismatchError as mismatch:
        return outcome(False, None, str(mismatch))
    except Exception as failure:
        return outcome(False, None, f"{type(failure).__name__}: {failure}")
    bound = STEP_BOUND if recording.training else OPERATOR_BOUND
    if error > bound:
        return outcome(False, error, f"relative error {error:.2e} is above {bound:.0e}")
    return outcome(True, error)


def _run(recording: Recording) -> float:
    scope = Scope()
    for name, value in recording.state.items():
        scope.var(name).get_tensor().set(value.array, CPUPlace())
        scope.var(name).get_tensor().set_recursive_sequence_lengths(value.lengths)
    executor = Executor(CPUPlace())
    worst = 0.0
    for number, step in enumerate(recording.steps):
        results = executor.run(
            recording.programs[step.program],
            feed={name: _fed(value) for name, value in step.feeds.items()},
            fetch_list=list(step.fetches),
            scope=scope,
            return_numpy=False,
        )
        for name, result, expected in zip(step.fetches, results, step.expected, strict=True):
            label = f"step {number}: {name}"
            worst = max(worst, _compare(label, result, expected, recording.random))
        for name, expected in recording.after.get(number, {}).items():
            worst = max(worst, _compare(name, _held(scope, name), expected, recording.random))
        if not recording.random:
            _check_digests(scope, recording.digests.get(number, {}), number)
    return worst


def _fed(value: Value) -> Any:
    if not value.lengths:
        return value.array
    tensor = LoDTensor()
    tensor.set(value.array, CPUPlace())
    tensor.set_recursive_sequence_lengths(value.lengths)
    return tensor


def _held(scope: Scope, name: str) -> LoDTensor:
    cell = scope.find_var(name)
    if cell is None or cell.value is None:
        raise MismatchError(f"{name} is not in the scope after the run")
    return cell.get_tensor()


def _compare(label: str, result: Any, expected: Value, random: bool) -> float:
    """The largest relative error; MismatchError where shape, type or LoD differ."""
    if not isinstance(result, LoDTensor):
        raise MismatchError(f"{label}: is a {type(result).__name__}")
    actual = np.asarray(result)
    want = expected.array
    if actual.shape != want.shape or actual.dtype != want.dtype:
        raise MismatchError(
            f"{label}: {actual.dtype}{actual.shape}, Fluid {want.dtype}{want.shape}"
        )
    lengths = result.recursive_sequence_lengths()
    if lengths != expected.lengths:
        raise MismatchError(f"{label}: sequence lengths {lengths}, Fluid {expected.lengths}")
    if random:
        if not np.array_equal(np.isfinite(actual), np.isfinite(want)):
            raise MismatchError(f"{label}: not finite where Fluid is")
        return 0.0
    return relative_error(actual, want)


def relative_error(actual: Array, expected: Array) -> float:
    """max |a - b| / (|b| + mean |b|), beyond 1e-7 of rounding; inf where NaNs differ."""
    if actual.size == 0 or np.array_equal(actual, expected, equal_nan=actual.dtype.kind == "f"):
        return 0.0
    a, b = actual.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not finite.any():
        return float("inf")
    a, b = a[finite], b[finite]
    scale = np.abs(b) + np.abs(b).mean()
    excess = np.maximum(np.abs(a - b) - _FLOOR, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.where(excess > 0, excess / scale, 0.0)
    return float(np.where(np.isnan(errors), np.inf, errors).max())


def digest(array: Array) -> Array:
    """Sum, sum of magnitudes, sum of squares, first, middle and last element."""
    flat = array.astype(np.float64).ravel()
    sums = [flat.sum(), np.abs(flat).sum(), np.square(flat).sum()]
    return np.array([*sums, flat[0], flat[flat.size // 2], flat[-1]])


def _check_digests(scope: Scope, digests: dict[str, Array], step: int) -> None:
    for name, want in digests.items():
        array = np.asarray(_held(scope, name))
        got = digest(array)
        typical = np.sqrt(want[2] / array.size)
        scale = np.array([want[1], want[1], want[2], *np.maximum(np.abs(want[3:]), typical)])
        error = np.abs(got - want) / np.maximum(scale, 1e-12)
        if np.any(np.abs(got - want) > DIGEST_BOUND * scale + _FLOOR):
            raise MismatchError(f"{name} after step {step}: digest differs by {error.max():.1e}")
