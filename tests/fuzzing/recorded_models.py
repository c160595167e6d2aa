"""Recorded models trained on batches of random sizes, made of the recorded ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import numpy as np

from refluid.ir.program import Program
from refluid.verify.recordings import RecordedValue, load_recording
from tests.fuzzing.programs import Built
from tests.fuzzing.recorded import Repeated
from tests.golden import GOLDEN, recorded_models

# Steps of the recorded size, which are recorded alone, then of others. A model whose step took
# more milliseconds gets a few.
SAME, OTHERS, FEW, EXPENSIVE = 5, 14, 4, 70.0


def names() -> list[str]:
    """The models that are fed no sequences, whose batches are free."""
    return sorted(name for name, known in recorded_models().items() if not known["lod_vars"])


def model(name: str, seed: int) -> Repeated | None:
    """The model, trained on the rows of its recorded batches; None if no batch is free."""
    recording = load_recording(GOLDEN / "zoo" / name)
    tag = max(recording.programs, key=lambda one: len(recording.programs[one].global_block().ops))
    program = recording.programs[tag]
    steps = [step for step in recording.steps if step.program == tag]
    rows = _rows(program, steps[0].feeds)
    if not rows:
        return None
    draw = Random(f"{seed} {name}")
    start = {key: value.array for key, value in recording.state.items()}
    cheap = recorded_models()[name]["plain_ms"]["median"] <= EXPENSIVE
    sizes = [rows] * SAME + [
        draw.randint(1, min(2 * rows, 24)) for _ in range(OTHERS if cheap else FEW)
    ]
    feeds = [
        dict(_batch(steps[place % len(steps)].feeds, rows, size, draw))
        for place, size in enumerate(sizes)
    ]
    built = Built(program, None, list(dict.fromkeys(steps[0].fetches)), None, [])
    return Repeated(name, built, tuple(feeds), start, seed)


def _rows(program: Program, feeds: Mapping[str, RecordedValue]) -> int:
    """How many rows the recorded batches have, if all that is fed may have another number."""
    block = program.global_block()
    firsts = {len(value.array) for value in feeds.values() if value.array.ndim}
    free = all(block.vars[name].shape[:1] == (-1,) for name in feeds)
    return firsts.pop() if free and len(firsts) == 1 else 0


def _batch(
    feeds: Mapping[str, RecordedValue], rows: int, size: int, draw: Random
) -> Iterator[tuple[str, Any]]:
    """`size` rows of a recorded batch, the same ones of all that is fed."""
    chosen = [draw.randrange(rows) for _ in range(size)]
    for name, value in feeds.items():
        yield name, np.ascontiguousarray(value.array[chosen])
