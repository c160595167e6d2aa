"""What an operator declares about memory is true: results that share it, inputs it overwrites."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from refluid.ir.operator import Operator
from refluid.ops.probing import by_slot
from refluid.ops.registry import OperatorDef, find
from refluid.ops.signature import Body
from refluid.verify.recordings import Recording, load_recording
from refluid.verify.replay import missing_operators
from tests.golden import GOLDEN, needs_golden

CASES = sorted((GOLDEN / "ops").glob("*/op*.npz"))
CPU = torch.device("cpu")


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed or 1)


def _call(
    body: Body, op: Operator, definition: OperatorDef, values: dict[str, Tensor]
) -> list[list[Any]]:
    arguments: list[Any] = []
    for slot in definition.inputs:
        given = [values.get(name) for name in op.input(slot.name)]
        arguments.append((given or None) if slot.many else (given[0] if given else None))
    context = {
        "device": CPU,
        "random": _generator,
        "need": tuple(any(op.output(slot.name)) for slot in definition.outputs),
    }
    options = {definition.keywords[k]: v for k, v in op.attrs.items() if k in definition.keywords}
    options |= {name: context[name] for name in definition.context}
    options |= dict.fromkeys(definition.levels, ())
    result = body(*arguments, **options)
    if definition.makes_lod:
        count = len(definition.outputs)
        result = result[0] if count == 1 else result[:count]
    return by_slot(definition.outputs, result)


@dataclass
class Run:
    """An operator with a body of its own, its inputs before and after, and what it returned."""

    op: Operator
    definition: OperatorDef
    before: dict[str, Tensor]
    after: dict[str, Tensor]
    results: list[list[Any]]


def _clones(values: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in values.items()}


def _runs(recording: Recording) -> Iterator[Run]:
    (step,) = recording.steps
    given = {**recording.state, **step.feeds}
    values = {name: torch.tensor(value.array) for name, value in given.items()}
    for op in recording.programs[step.program].blocks[0].ops:
        definition = find(op.type)
        if definition is None or definition.body is None:
            continue
        before = _clones({name: values[name] for name in op.input_arg_names if name in values})
        results = _call(definition.body, op, definition, values)
        yield Run(op, definition, before, values, results)
        for slot, made in zip(definition.outputs, results, strict=True):
            for name, value in zip(op.output(slot.name), made, strict=False):
                if value is not None:
                    values[name] = value.clone()


def _load(path: Path) -> Recording:
    recording = load_recording(path)
    if missing_operators(recording.programs.values()) or len(recording.steps) != 1:
        pytest.skip("an operator is missing")
    if any(value.lengths for value in recording.steps[0].feeds.values()):
        pytest.skip("sequences are tested with the sequence operators")
    return recording


def _shares(one: Tensor, other: Tensor) -> bool:
    same = one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    return same and one.numel() > 0 and other.numel() > 0


@needs_golden
@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_shared_memory_is_declared(path: Path) -> None:
    for run in _runs(_load(path)):
        op, definition = run.op, run.definition
        declared = {**definition.views, **definition.mutates}
        for slot, made in zip(definition.outputs, run.results, strict=True):
            for source in definition.inputs:
                inputs = [run.after[name] for name in op.input(source.name) if name in run.after]
                sharing = any(
                    _shares(one, other) for one in made if one is not None for other in inputs
                )
                assert not sharing or declared.get(slot.name) == source.name, (
                    f"{op.type}: {slot.name} shares the memory of {source.name}"
                )


@needs_golden
@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_only_declared_inputs_are_overwritten(path: Path) -> None:
    for run in _runs(_load(path)):
        mutated = {name for slot in run.definition.mutates.values() for name in run.op.input(slot)}
        for name in run.before.keys() - mutated:
            assert torch.equal(run.before[name], run.after[name]) or run.before[name].isnan().any()


@needs_golden
@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_reusing_memory_changes_nothing(path: Path) -> None:
    for run in _runs(_load(path)):
        for body in run.definition.reusing.values():
            again = _call(body, run.op, run.definition, _clones(run.before))
            for one, other in zip(run.results, again, strict=True):
                for first, second in zip(one, other, strict=True):
                    assert (first is None) == (second is None)
                    assert first is None or torch.equal(first, second)
