"""Recorded models under every pair of strategy switches: on one place, on two, in mixed precision.

And with merged batches and recomputed activations. The models of QUICK run always, all others
with `-m slow`; those that take long get some of the combinations each, and together all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from refluid.core.errors import EnforceNotMet
from refluid.ir.program import Program
from refluid.passes.gradient_merge import GradientMerge, gradient_merge
from refluid.runtime.recorded import compile
from refluid.runtime.recorded.compile import compile_steps
from refluid.verify.metrics import relative_error
from refluid.verify.recordings import RecordedValue, Recording, load_recording
from tests.choices import often
from tests.fluid.by_hand import ByHand
from tests.fluid.mixed_recordings import in_mixed_precision, recomputing
from tests.fluid.plain_runs import PlainRun, fetched, forward_only, in_parts, losses_alone
from tests.fluid.strategy_pairs import (
    WATCHERS,
    Combination,
    all_pairs,
    loss_of,
    repeated,
    repeats,
    run_as,
)
from tests.golden import GOLDEN, needs_golden, recorded_models

ROWS = all_pairs()
QUICK = {
    "book_mnist_cnn",
    "book_word2vec",
    "senta_lstm",
}
NAMES = sorted(path.parent.name for path in (GOLDEN / "zoo").glob("*/steps.npz"))
MODELS = [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow, id=name) for name in NAMES
]
BOUND, MIXED_BOUND = 1e-5, 1e-2
# Half a unit in the last place of bfloat16: what its rounding takes from a weight.
MIXED_ROUNDING = 2.0**-9
# Detectors that learn from boxes chosen by score: in half precision one scores a little lower, and
# the loss of its place is 0 instead of 0.11.
CHOOSES = frozenset({"ppdet_faster_rcnn_dcnv2"})
# A model whose steps took longer, in milliseconds, as recorded, is expensive.
CHEAP = 70.0
pytestmark = needs_golden


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Operators in one thread: the many small ones of these models only wait for a second.

    What strategies have compiled goes the compiler's way but for the C++ compiler, which would
    take minutes for each model, for two steps.
    """
    former = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(compile, "compile_steps", lambda steps: compile_steps(steps, _as_it_is))
    yield
    torch.set_num_threads(former)


def _as_it_is(module: Any, examples: Any) -> Any:
    return module


def recording_of(model: str, steps: int) -> Recording:
    """The first steps of a recorded model; random numbers from a seed."""
    found = load_recording(GOLDEN / "zoo" / model)
    found.steps, found.digests = found.steps[:steps], {}
    if found.random:
        for program in found.programs.values():
            program.random_seed = 17
    return found


def expensive(model: str) -> bool:
    """Whether its recorded steps took long."""
    return bool(recorded_models()[model]["plain_ms"]["cpu_median"] > CHEAP)


def rows_for(model: str, few: int, turn: int = 0, *, always: bool = False) -> list[Combination]:
    """All combinations; or `few`, other ones for each model and turn, if expensive or `always`."""
    start = NAMES.index(model) * few + turn
    if not expensive(model) and not always:
        return ROWS
    return [ROWS[(start + number) % len(ROWS)] for number in range(few)]


def watched_rows(model: str) -> list[Combination]:
    """A combination with each flag by which operators are watched; other ones for each model."""
    rows = rows_for(model, len(WATCHERS), always=True)
    found = [row | {flag: True} for flag, row in zip(WATCHERS, rows, strict=True)]
    return found[NAMES.index(model) % 3 :][:1] if expensive(model) else found


def hold(
    recording: Recording, bound: float, rows: list[Combination], *, losses: bool = False
) -> None:
    """On one place, every combination gives what the plain Executor gives, up to rounding.

    losses: only these count; half precision moves a row past a threshold, and a count by one.
    """
    plain = {times: PlainRun(recording, times) for times in {repeats(row) for row in rows}}
    for row in rows:
        found = run_as(recording, {**row, "places": 1})
        wanted = losses_alone(recording, found) if losses else found
        plain[repeats(row)].require(wanted, bound, row)


@pytest.mark.parametrize("model", MODELS)
def test_on_one_place(model: str) -> None:
    hold(recording_of(model, 2), BOUND, rows_for(model, 2) + watched_rows(model))


# Convolutions in mixed precision have tests with two places and in test_mixed_precision.
QUICK_IN_MIXED = QUICK - {"book_mnist_cnn"}


@pytest.mark.parametrize("model", often(NAMES, [one for one in NAMES if one in QUICK_IN_MIXED]))
def test_in_mixed_precision(model: str) -> None:
    """As the plain Executor runs the same mixed program, whose losses are near float32's."""
    recording = recording_of(model, 2)
    plain = PlainRun(recording, rounding=MIXED_ROUNDING)
    recording = mixed(recording)
    if model not in CHOOSES:
        plain.require(losses_alone(recording, PlainRun(recording).results), MIXED_BOUND, "float32")
    hold(recording, MIXED_BOUND, rows_for(model, 1, turn=1), losses=True)


@pytest.mark.parametrize("model", MODELS)
def test_on_two_places(model: str) -> None:
    """As two plain runs on half the batch each, of which the mean of gradients is applied."""
    hold_on_two(recording_of(model, 2), BOUND, rows_for(model, 1, turn=2))


@pytest.mark.parametrize("model", MODELS)
def test_in_mixed_precision_on_two_places(model: str) -> None:
    """As two plain runs of the same mixed program."""
    recording = mixed(recording_of(model, 2))
    hold_on_two(recording, MIXED_BOUND, rows_for(model, 1, turn=6, always=True), losses=True)


def mixed(recording: Recording) -> Recording:
    """The same training in mixed precision."""
    made = {tag: in_mixed_precision(program) for tag, program in recording.programs.items()}
    found = {tag: program for tag, program in made.items() if program is not None}
    if len(found) < len(made):
        pytest.skip("trains several losses, or one that is made of gradients")
    return replace(recording, programs=found)


def hold_on_two(
    recording: Recording, bound: float, rows: list[Combination], *, losses: bool = False
) -> None:
    """Every replica has batch norms of its own, as two plain runs have. losses: as in `hold`."""
    if recording.random:
        pytest.skip("each place draws numbers of its own")
    rows = [{**row, "places": 2, "sync_batch_norm": False} for row in rows]
    by_hand = {}
    try:
        for times in {repeats(row) for row in rows}:
            found = ByHand(repeated(recording, times), 2).run()[times - 1 :: times]
            by_hand[times] = fetched(recording, found)
    except (EnforceNotMet, ValueError) as refused:
        with pytest.raises(type(refused)):
            run_as(recording, rows[0])
        pytest.skip(f"its batch can't be halved: {refused}")
    plain = {times: PlainRun(recording, times) for times in by_hand}
    for row in rows:
        expected, results = by_hand[repeats(row)], run_as(recording, row)
        if losses:
            expected, results = (losses_alone(recording, one) for one in (expected, results))
        compared = [
            {label: after[label] for label in want}
            for want, after in zip(expected, results, strict=True)
        ]
        plain[repeats(row)].require(compared, bound, row, expected)


@pytest.mark.parametrize("model", MODELS)
def test_whole_batch_on_two_places(model: str) -> None:
    """As one plain run, where the loss is a mean over rows; batch norms see the whole batch."""
    recording = recording_of(model, 2)
    reason = not_a_mean(recording)
    if reason:
        pytest.skip(reason)
    rows = rows_for(model, 1 if expensive(model) else 3, turn=3, always=True)
    plain = {times: PlainRun(recording, times) for times in {repeats(row) for row in rows}}
    for row in rows:
        found = run_as(recording, {**row, "places": 2, "sync_batch_norm": True})
        plain[repeats(row)].require(losses_alone(recording, found), BOUND, row)


@pytest.mark.parametrize("model", MODELS)
def test_merged_batches(model: str) -> None:
    """Two halves of a batch as two plain runs, of which the mean of gradients is applied.

    It is dense: Adam corrects its moments one step further where a gradient is sparse.
    """
    recording = recording_of(model, 2)
    if recording.random:
        pytest.skip("each run draws numbers of its own")
    try:
        by_hand = ByHand(recording, 2, dense=True).run()
        merged = replace(in_parts(recording, 2), state=dict(recording.state))
    except (EnforceNotMet, ValueError) as refused:
        pytest.skip(f"its batch can't be halved: {refused}")
    programs = {}
    for tag, program in recording.programs.items():
        programs[tag], startup = program.clone(), Program()
        gradient_merge(programs[tag], GradientMerge(2, startup=startup))
        for var in startup.list_vars():
            kind = "int64" if "steps" in var.name else "float32"
            merged.state.setdefault(var.name, RecordedValue(np.zeros(var.shape, kind)))
    merged.programs = programs
    plain = PlainRun(merged)
    expected: list[dict[str, RecordedValue]] = []
    for step, after in zip(recording.steps, by_hand, strict=True):
        loss = loss_of(recording.programs[step.program])
        label = f"fetch {step.fetches.index(loss)}" if loss in step.fetches else ""
        for rank in range(2):
            expected.append({label: RecordedValue(np.array(after[loss][rank]))} if label else {})
    plain.require(expected, BOUND, "by hand")
    for row in rows_for(model, 1 if expensive(model) else 2, turn=4, always=True):
        plain.require(run_as(merged, {**row, "places": 1, "num_iteration_per_run": 1}), BOUND, row)


@pytest.mark.parametrize("model", MODELS)
def test_recomputed(model: str) -> None:
    """What is computed a second time in the backward pass changes no loss."""
    recording = recording_of(model, 2)
    if recording.random:
        pytest.skip("random results are kept, and gradients of them draw in another order")
    made = {tag: recomputing(program) for tag, program in recording.programs.items()}
    if None in made.values():
        pytest.skip("trains several losses, or one that is made of gradients")
    rows = rows_for(model, 1, turn=5, always=True)
    plain = {times: PlainRun(recording, times) for times in {repeats(row) for row in rows}}
    recording.programs = {tag: program for tag, program in made.items() if program is not None}
    for row in rows:
        found = run_as(recording, {**row, "places": 1})
        plain[repeats(row)].require(losses_alone(recording, found), BOUND, row)


def not_a_mean(recording: Recording) -> str:
    """Why the loss of a batch isn't the mean of the losses of its halves; empty where it is.

    As the forward pass alone says, with batch norms that use fixed statistics, and with weights
    so large that the losses of rows differ.
    """
    if recording.random:
        return "each place draws numbers of its own"
    programs = {tag: forward_only(one, loss_of(one)) for tag, one in recording.programs.items()}
    whole = replace(recording, programs=programs)
    steps = []
    for step in recording.steps:
        loss = loss_of(recording.programs[step.program])
        if loss not in step.fetches:
            return "doesn't fetch its loss"
        steps.append(replace(step, fetches=(loss,)))
    whole.steps = steps
    whole.state = {
        name: RecordedValue(value.array * 8 if value.array.dtype == np.float32 else value.array)
        for name, value in recording.state.items()
    }
    try:
        halves = PlainRun(in_parts(whole, 2)).results
    except (EnforceNotMet, ValueError) as refused:
        return f"its batch can't be halved: {refused}"
    for number, values in enumerate(PlainRun(whole).results):
        parts = [halves[2 * number + rank]["fetch 0"].array for rank in range(2)]
        error = relative_error(np.mean(parts, axis=0), values["fetch 0"].array)
        if not error <= BOUND:
            return f"its loss is no mean over rows that part evenly: {error:.1e} from it"
    return ""
