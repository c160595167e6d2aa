"""Programs to compare: recorded ones of few operators, changed, and their gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from refluid import fluid
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.verify import replay
from refluid.verify.recordings import RecordedStep, RecordedValue, Recording, load_recording
from scripts.against_paddle.case import Case, Outcome
from scripts.against_paddle.changes import change

_MOST_OPERATORS = 6


def recorded(folder: Path) -> Iterator[tuple[str, Recording]]:
    """Runs of forward operators whose results are not random, each kind of program once."""
    seen = set()
    for path in sorted([*folder.glob("*/auto.*.npz"), *folder.glob("*/op.*.npz")]):
        recording = load_recording(path)
        (program, *others) = recording.programs.values()
        ops = program.global_block().ops
        if recording.random or others or len(program.blocks) > 1 or len(ops) > _MOST_OPERATORS:
            continue
        shapes = sorted((n, value.array.shape) for n, value in recording.steps[0].feeds.items())
        kind = repr(([(op.type, _attributes(op)) for op in ops], shapes))
        if kind not in seen:
            seen.add(kind)
            yield f"{path.parent.name}/{path.stem}", recording


def _attributes(op: Operator) -> list[tuple[str, Any]]:
    return sorted((name, value) for name, value in op.attrs.items() if name != "op_callstack")


def variations(origin: str, recording: Recording, count: int, random: Random) -> Iterator[Case]:
    """The recorded run, and `count` that are changed."""
    (program,) = recording.programs.values()
    step = recording.steps[0]
    text = program.serialize_to_string()
    for number in range(count + 1):
        own = Program.parse_from_string(text)
        feeds = {name: (one.array, one.lengths) for name, one in step.feeds.items()}
        state = {name: (one.array, one.lengths) for name, one in recording.state.items()}
        done = change(own, feeds, state, random) if number else ""
        if done or not number:
            operators = tuple(op.type for op in own.global_block().ops)
            fetches = tuple(dict.fromkeys(step.fetches))
            made = own.serialize_to_string()
            yield Case(origin, done, operators, made, feeds, state, fetches)


def gradient_of(case: Case, outcome: Outcome) -> Case | None:
    """Gradients of the mean squares of all results with respect to all inputs."""
    program = Program.parse_from_string(case.program)
    block = program.global_block()
    results = zip(case.fetches, outcome.tensors, strict=True)
    outs = [block.vars[n] for n, one in results if one is not None and one[0].dtype.kind == "f"]
    wrt = [block.vars[n] for n, (array, _) in case.feeds.items() if array.dtype.kind == "f"]
    if not outs or not wrt:
        return None
    for var in (*outs, *wrt):
        var.stop_gradient = False
    with fluid.program_guard(program, Program()):
        losses = [fluid.layers.mean(fluid.layers.square(out)) for out in outs]
        grads = fluid.gradients([fluid.layers.sums(losses)], wrt)
    names = tuple(grad.name for grad in grads if grad is not None)
    if not names:
        return None
    text = "; ".join(filter(None, (case.change, "gradient")))
    return replace(case, change=text, program=program.serialize_to_string(), fetches=names)


def run(case: Case) -> Outcome:
    """By refluid, on the CPU."""
    feeds = {name: RecordedValue(*tensor) for name, tensor in case.feeds.items()}
    state = {name: RecordedValue(*tensor) for name, tensor in case.state.items()}
    program = Program.parse_from_string(case.program)
    step = RecordedStep("main", feeds, case.fetches, {})
    try:
        (found,) = replay.run(Recording(case.origin, {"main": program}, state, [step]))
    except Exception as error:
        return Outcome(error=f"{type(error).__name__}: {error}")
    values = [found.get(f"fetch {number}") for number in range(len(case.fetches))]
    return Outcome([None if one is None else (one.array, one.lengths) for one in values])


def with_gradients(cases: Iterable[Case]) -> Iterator[tuple[Case, Outcome]]:
    """All cases with what refluid makes of them, and the gradients of those that run."""
    for case in cases:
        outcome = run(case)
        yield case, outcome
        if outcome.error:
            continue
        try:
            gradient = gradient_of(case, outcome)
        except Exception:
            continue  # of what has no gradient, or no known shape
        if gradient is not None:
            yield gradient, run(gradient)
