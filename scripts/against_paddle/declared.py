"""Declared shapes: the sizes of results where some of the inputs' are unknown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from refluid.ir.program import Program
from refluid.ops.registry import find
from refluid.verify.recordings import Recording
from scripts.against_paddle.case import Case, Outcome
from scripts.against_paddle.cases import recorded

Run = tuple[Case, Outcome]


def declarations(folder: Path, words: list[str], changes: int, random: Random) -> Iterator[Run]:
    """Recorded programs with unknown first sizes, each with what refluid says of the results."""
    for origin, recording in recorded(folder):
        if not words or any(word in origin for word in words):
            for case in _variations(origin, recording, changes, random):
                yield case, declare(case)


def _variations(origin: str, recording: Recording, count: int, random: Random) -> Iterator[Case]:
    """Every single input without its number of rows, all of them, and other sizes at random."""
    (program,) = recording.programs.values()
    feeds = {n: one.array.shape for n, one in recording.steps[0].feeds.items() if one.array.ndim}
    batches = [{name: (0,)} for name in feeds]
    if len(feeds) > 1:
        batches.append(dict.fromkeys(feeds, (0,)))
    for _ in range(count):
        some = random.sample(sorted(feeds), k=random.randint(1, len(feeds))) if feeds else []
        batches.append({n: tuple(random.sample(range(len(feeds[n])), k=1)) for n in some})
    for unknown in batches:
        own = Program.parse_from_string(program.serialize_to_string())
        for name, shape in feeds.items():
            axes = unknown.get(name, ())
            sizes = tuple(-1 if axis in axes else size for axis, size in enumerate(shape))
            own.global_block().vars[name].describe(shape=sizes, dtype=None)
        block = own.global_block()
        results = tuple(
            name for op in block.ops for name in op.output_arg_names if name not in feeds
        )
        text = ", ".join(f"{name}{list(block.vars[name].shape)}" for name in unknown)
        operators = tuple(op.type for op in block.ops)
        made = own.serialize_to_string()
        yield Case(origin, text, operators, made, {}, {}, results, declared=True)


def declare(case: Case) -> Outcome:
    """What refluid says."""
    program = Program.parse_from_string(case.program)
    block = program.global_block()
    try:
        for op in block.ops:
            definition = find(op.type)
            assert definition is not None
            definition.infer(op)
    except Exception as error:
        return Outcome(error=f"{type(error).__name__}: {error}")
    return Outcome(shapes={name: tuple(block.vars[name].shape) for name in case.fetches})
