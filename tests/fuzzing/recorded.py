"""Recorded runs of operators, repeated with other values, sizes and absent inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from refluid import fluid
from refluid.ir.program import Program
from refluid.ops.registry import find
from refluid.verify.recordings import RecordedValue, load_recording
from scripts.against_paddle.case import Case, Outcome
from scripts.against_paddle.cases import gradient_of
from tests.fuzzing.judging import differences
from tests.fuzzing.programs import Built
from tests.fuzzing.running import State, Way, run_fed
from tests.fuzzing.sizes import sequence
from tests.fuzzing.ways import ORACLE, TIER

# Steps of the recorded sizes, more than any tier waits before it records.
SAME = 7


@dataclass(frozen=True)
class Repeated:
    """A program of recorded operators, what it is fed in each step, and the state before."""

    label: str
    built: Built
    feeds: tuple[Mapping[str, Any], ...]
    start: State
    seed: int

    def differences(self, tier: str) -> list[str]:
        """Of a tier to the interpreted one."""
        oracle, found = (
            run_fed(self.built, self.feeds, self.start, way, self.seed)
            for way in (ORACLE, Way(tier, {TIER: tier}))
        )
        return list(differences(oracle, found))


def runs(path: Path, seed: int) -> Iterator[Repeated]:
    """The recorded program, its gradient, and where inputs may be absent without some of those."""
    recording = load_recording(path)
    label = f"{path.parent.name}/{path.stem}"
    if recording.parallel is not None or len(recording.programs) > 1:
        return
    (program,) = recording.programs.values()
    (step, *_) = recording.steps
    draw = Random(f"{seed} {label}")
    text = program.serialize_to_string()
    start = {name: value.array for name, value in recording.state.items()}
    feeds = tuple(_feeds(step.feeds, draw))
    fetches = list(dict.fromkeys(step.fetches))
    for kind, made, names in _variations(text, step.feeds, fetches, draw):
        for name in step.feeds:  # of any size
            var = made.global_block().vars[name]
            var.is_data = var.need_check_feed = False
        built = Built(made, None, names, None, [])
        yield Repeated(f"{label} {kind}".strip(), built, feeds, start, seed)


def _variations(
    text: bytes, fed: Mapping[str, RecordedValue], fetches: list[str], draw: Random
) -> Iterator[tuple[str, Program, list[str]]]:
    texts = {"": text}
    program = Program.parse_from_string(text)
    absent = _without_optional(program, draw)
    if absent:
        texts[f"without {absent}"] = program.serialize_to_string()
    for kind, own in texts.items():
        yield kind, Program.parse_from_string(own), fetches
        gradient = _gradient(own, fed, fetches)
        if gradient is not None:
            made = Program.parse_from_string(gradient.program)
            yield f"{kind} gradient", made, list(gradient.fetches)


def _without_optional(program: Program, draw: Random) -> str:
    """Takes some inputs away that may be absent; their slots."""
    taken = []
    ops = program.global_block().ops
    if any(op.type.endswith("_grad") for op in ops):  # which would lack what they need
        return ""
    for op in ops:
        definition = find(op.type)
        for slot in definition.inputs if definition else ():
            if slot.optional and op.inputs.get(slot.name) and draw.random() < 0.7:
                op.set_input(slot.name, [])
                taken.append(f"{op.type}.{slot.name}")
    return ", ".join(taken)


def _gradient(text: bytes, fed: Mapping[str, RecordedValue], fetches: list[str]) -> Case | None:
    feeds = {name: (value.array, value.lengths) for name, value in fed.items()}
    case = Case("", "", (), text, feeds, {}, tuple(fetches))
    block = Program.parse_from_string(text).global_block()
    kinds = [(np.zeros(0, _numpy_kind(block, name)), []) for name in fetches]
    try:
        return gradient_of(case, Outcome([*kinds]))
    except Exception:
        return None  # of what has no gradient, or no known shape


def _numpy_kind(block: Any, name: str) -> str:
    var = block.vars.get(name)
    known = var is not None and var.has_description()
    return "float32" if known and "FP" in str(var.dtype) else "int64"


def _feeds(fed: Mapping[str, RecordedValue], draw: Random) -> Iterator[dict[str, Any]]:
    """As recorded, then with the numbers in other places, then with other numbers of rows."""
    firsts = [len(one.array) for one in fed.values() if one.array.ndim and not one.lengths]
    rows = max(set(firsts), key=firsts.count) if firsts else 0
    ragged = any(one.lengths for one in fed.values())
    sizes = [rows] * SAME
    if rows and not ragged:
        sizes += [one for (one,) in sequence(draw, 1, 12)]
    for number, size in enumerate(sizes):
        random = np.random.RandomState(draw.getrandbits(32))
        yield {
            name: _changed(value, rows, size, random if number else None)
            for name, value in fed.items()
        }


def _changed(value: RecordedValue, rows: int, size: int, random: Any) -> Any:
    array = value.array
    if random is not None and array.size:
        array = random.permutation(array.reshape(-1)).reshape(array.shape)
        if array.dtype.kind == "f" and random.random_sample() < 0.5:
            array = (array * random.choice([0.5, 1.0, 0.0])).astype(array.dtype)
    if array.ndim and not value.lengths and len(array) == rows != size:
        array = np.take(array, np.arange(size) % rows, axis=0)
    if not value.lengths:
        return array
    tensor = fluid.LoDTensor()
    tensor.set(array, fluid.CPUPlace())
    tensor.set_recursive_sequence_lengths(value.lengths)
    return tensor
