"""Replays a recording and says how far refluid's numbers are from Fluid's."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from refluid.core import flags
from refluid.core.places import CPUPlace, Place
from refluid.core.scope import Scope
from refluid.core.values import LoDTensor, as_lod_tensor
from refluid.fluid.compiler import BuildStrategy, CompiledProgram
from refluid.fluid.executor import Executor
from refluid.ir.program import Program
from refluid.ops import registry
from refluid.runtime.writing import CONTROL, FEEDING
from refluid.verify.conditioning import Repetitions, Run, RunResults
from refluid.verify.judge import judge
from refluid.verify.metrics import (
    OPERATOR_BOUND,
    STEP_BOUND,
    Deviation,
    change_bound,
    digest,
    digest_error,
    relative_error,
    root_mean_square,
    turned,
)
from refluid.verify.recordings import Array, RecordedValue, Recording

HOST = CPUPlace()
# What they give counts something.
METRICS = frozenset({"accuracy", "auc", "chunk_eval", "detection_map", "precision_recall"})


@dataclass(frozen=True)
class Outcome:
    """How one recording went. max_error is relative, None where nothing could be compared.

    ill_conditioned: it passes only because rounding explains how far it is from Fluid.
    """

    case: str
    passed: bool
    max_error: float | None
    seconds: float
    reason: str = ""
    ill_conditioned: bool = False


class MismatchError(Exception):
    """A value differs in more than rounding."""


def missing_operators(programs: Iterable[Program]) -> list[str]:
    """Operator types of the programs that refluid doesn't have."""
    types = {op.type for program in programs for block in program.blocks for op in block.ops}
    known = CONTROL.keys() | FEEDING
    return sorted(kind for kind in types if registry.find(kind) is None and kind not in known)


def replay(recording: Recording, case: str, place: Place = HOST) -> Outcome:
    """Runs all steps of a recording at a place and compares fetches, changed state and digests."""
    start = time.perf_counter()

    def outcome(passed: bool, error: float | None, reason: str = "", ill: bool = False) -> Outcome:
        return Outcome(case, passed, error, time.perf_counter() - start, reason, ill)

    missing = missing_operators(recording.programs.values())
    if missing:
        return outcome(False, None, "operators missing: " + ", ".join(missing))
    try:
        deviations = compare(recording, run(recording, place))
    except MismatchError as mismatch:
        return outcome(False, None, str(mismatch))
    except Exception as failure:
        return outcome(False, None, f"{type(failure).__name__}: {failure}")
    worst = max((deviation.error for deviation in deviations), default=0.0)
    try:
        verdict = judge(deviations, recording.spreads, Repetitions(recording, repeating(place)))
    except Exception as failure:
        return outcome(False, worst, f"repeated: {type(failure).__name__}: {failure}")
    return outcome(verdict.passed, worst, verdict.reason, verdict.ill_conditioned)


def run(recording: Recording, place: Place = HOST) -> RunResults:
    """Per step: every fetch (`fetch N`) and every persistable variable to compare.

    Recordings were made on a CPU: Fluid's faults there are computed too.
    """
    with flags.override({"FLAGS_refluid_fluid_cpu_faults": True}):
        return steps(recording, Executor(place))


def repeating(place: Place = HOST) -> Run:
    """As `run`, for recordings with the same programs: plans them once, and records none."""
    executor = Executor(place)

    def run(recording: Recording) -> RunResults:
        here: dict[str, Any] = {"FLAGS_refluid_fluid_cpu_faults": True}
        if flags.value("refluid_tier") == "auto":
            here["FLAGS_refluid_tier"] = "interpreted"
        with flags.override(here):
            return steps(recording, executor)

    return run


def starting_scope(recording: Recording, place: Place = HOST) -> Scope:
    """The state before the first step, in a scope of its own."""
    scope = Scope()
    for name, value in recording.state.items():
        tensor = scope.var(name).get_tensor()
        tensor.set(value.array, place)
        tensor.set_recursive_sequence_lengths(value.lengths)
    return scope


def steps(recording: Recording, executor: Executor | None = None) -> RunResults:
    """As `run`, with the numbers that refluid computes by default."""
    executor = executor or Executor(HOST)
    scope, results = starting_scope(recording, executor.place), RunResults()
    for number, step in enumerate(recording.steps):
        program = recording.programs[step.program]
        fetched = executor.run(
            program
            if recording.parallel is None
            else _compiled(program, recording.parallel, executor),
            feed={name: fed(value) for name, value in step.feeds.items()},
            fetch_list=list(step.fetches),
            scope=scope,
            return_numpy=False,
            return_merged=recording.parallel is None
            or not any("." in one for one in step.expected),
        )
        found: dict[str, RecordedValue] = {}
        for index, (name, value) in enumerate(zip(step.fetches, fetched, strict=True)):
            found |= _fetched(index, name, value)
        kept = [*recording.after.get(number, {}), *recording.digests.get(number, {})]
        found |= {name: _value(_held(scope, name), name) for name in kept}
        results.append(found)
    return results


def _compiled(program: Program, parallel: Mapping[str, Any], executor: Executor) -> CompiledProgram:
    """The program with the strategy, and in as many replicas, as recorded."""
    build = BuildStrategy()
    for name, value in parallel["build"].items():
        default = getattr(build, name)
        if isinstance(default, IntEnum):
            value = type(default)[value.split(".")[-1]]
        setattr(build, name, value)
    return CompiledProgram(program).with_data_parallel(
        loss_name=parallel["loss"],
        build_strategy=build,
        places=[executor.place] * parallel["places"],
    )


def compare(recording: Recording, results: RunResults) -> list[Deviation]:
    """How far each result is from Fluid's; MismatchError where shape, type or LoD differ."""
    bound = STEP_BOUND if recording.training else OPERATOR_BOUND
    updated = _updated(recording.programs.values())
    deviations = []
    for number, (step, found) in enumerate(zip(recording.steps, results, strict=True)):
        counted = _counted(recording.programs[step.program])
        for position, expected in step.expected.items():
            key = f"fetch {position}"
            label = f"step {number}: {step.fetches[int(position.split('.')[0])]}"
            if key not in found:
                raise MismatchError(f"{label}: {key} is missing")
            error = _error(label, found[key], expected, recording.random)
            counts = step.fetches[int(position.split(".")[0])] in counted
            deviations.append(Deviation(number, key, error, bound, fetch=True, counts=counts))
        for name, expected in recording.after.get(number, {}).items():
            error = _error(name, found[name], expected, recording.random)
            deviations.append(Deviation(number, name, error, bound))
        for name, want in recording.digests.get(number, {}).items():
            if not recording.random:
                before = recording.state[name].array if name in recording.state else None
                one = _variable(number, name, found[name].array, want, before)
                deviations.append(replace(one, updated=updated.get(name, "")))
    return deviations


def _variable(step: int, name: str, found: Array, want: Array, before: Array | None) -> Deviation:
    got = digest(found)
    return Deviation(
        step,
        name,
        digest_error(got, want, found.size),
        change_bound(found, before),
        size=root_mean_square(got, found.size),
        wanted_size=root_mean_square(want, found.size),
        elements=found.size,
        wanted=tuple(want),
        turned=turned(found, before),
    )


def _updated(programs: Iterable[Program]) -> dict[str, str]:
    """Variable -> the parameter that the same operator updates."""
    return {
        name: op.input("Param")[0]
        for program in programs
        for block in program.blocks
        for op in block.ops
        if op.input("Param") and op.input("Grad")
        for name in op.output_arg_names
    }


def _counted(program: Program) -> set[str]:
    """What the program's metrics give."""
    return {
        name
        for op in program.global_block().ops
        if op.type in METRICS
        for name in op.output_arg_names
    }


def fed(value: RecordedValue) -> Any:
    """As a user feeds it: an array, or a LoDTensor where there are sequences."""
    if not value.lengths:
        return value.array
    tensor = LoDTensor()
    tensor.set(value.array, HOST)
    tensor.set_recursive_sequence_lengths(value.lengths)
    return tensor


def _held(scope: Scope, name: str) -> LoDTensor:
    cell = scope.find_var(name)
    if cell is None or cell.value is None:
        raise MismatchError(f"{name} is not in the scope after the run")
    return cell.get_tensor()


def _fetched(index: int, name: str, result: Any) -> dict[str, RecordedValue]:
    """A fetched value, or the elements of a fetched list, by `fetch POSITION`."""
    if isinstance(result, list):  # a tensor array, or the values of several places
        return {
            f"fetch {index}.{position}": _value(as_lod_tensor(element), name)
            for position, element in enumerate(result)
        }
    return {f"fetch {index}": _value(result, name)}


def _value(result: Any, label: str) -> RecordedValue:
    if not isinstance(result, LoDTensor):
        raise MismatchError(f"{label}: is a {type(result).__name__}")
    if not result._is_initialized():
        return RecordedValue(np.array([]), [])
    return RecordedValue(np.array(result), result.recursive_sequence_lengths())


def _error(label: str, found: RecordedValue, expected: RecordedValue, random: bool) -> float:
    actual, want = found.array, expected.array
    if actual.size == want.size == 0:  # Fluid's arrays of empty tensors have lost shape and type
        return 0.0
    if actual.shape != want.shape or actual.dtype != want.dtype:
        got = f"{actual.dtype}{actual.shape}"
        raise MismatchError(f"{label}: {got}, Fluid {want.dtype}{want.shape}")
    if found.lengths != expected.lengths:
        raise MismatchError(f"{label}: lengths {found.lengths}, Fluid {expected.lengths}")
    if random:
        if not np.array_equal(np.isfinite(actual), np.isfinite(want)):
            raise MismatchError(f"{label}: not finite where Fluid is")
        return 0.0
    return relative_error(actual, want)
