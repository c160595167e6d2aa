"""Recorded models under every pair of strategy switches: on one place, in mixed precision, on two.

The models of QUICK run always, all others with `-m slow`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from refluid.cli import replay
from refluid.cli.conditioning import REPETITIONS, Spreads, judge
from refluid.cli.metrics import Deviation, relative_error
from refluid.cli.recordings import Recording, load_recording
from refluid.core.errors import EnforceNotMet
from tests.fluid.by_hand import ByHand
from tests.fluid.mixed_recordings import in_mixed_precision
from tests.fluid.strategy_pairs import all_pairs, run_as
from tests.golden import GOLDEN, needs_golden

ROWS = all_pairs()
# On two places every replica has batch norms of its own, as two plain runs have.
TWO = [{**row, "sync_batch_norm": False} for row in ROWS if row["places"] == 2]
QUICK = {
    "book_mnist_cnn",
    "book_recommender",
    "book_word2vec",
    "chinese_ner",
    "ctr_dnn",
    "deep_asr",
    "gru4rec",
    "senta_lstm",
    "wide_deep",
}
MODELS = [
    pytest.param(path.parent.name, marks=[] if path.parent.name in QUICK else pytest.mark.slow)
    for path in sorted((GOLDEN / "zoo").glob("*/steps.npz"))
]
BOUND, MIXED_BOUND = 1e-5, 1e-2
pytestmark = needs_golden


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Operators in one thread: the many small ones of these models only wait for a second."""
    former = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(former)


def recording_of(model: str, steps: int) -> Recording:
    """The first steps of a recorded model whose numbers are not random."""
    found = load_recording(GOLDEN / "zoo" / model)
    if found.random:
        pytest.skip("its numbers are random")
    found.steps, found.digests = found.steps[:steps], {}
    return found


def hold(recording: Recording, bound: float) -> None:
    """On one place, every combination gives what the plain Executor gives, up to rounding.

    What rounding does to a model that magnifies it is measured, as `refluid verify` does.
    """
    plain = replay.run(recording)
    spreads: Spreads = {}
    for row in ROWS:
        found = run_as(recording, {**row, "places": 1})
        deviations = [
            Deviation(step, label, relative_error(value.array, before[label].array), bound, True)
            for step, (before, after) in enumerate(zip(plain, found, strict=True))
            for label, value in after.items()
        ]
        if any(one.error > bound for one in deviations):
            if not spreads:
                replay.widen(spreads, recording, range(REPETITIONS[0]))
            explained, reason = judge(deviations, spreads)
            assert explained, (reason, row)


@pytest.mark.parametrize("model", MODELS)
def test_on_one_place(model: str) -> None:
    hold(recording_of(model, 2), BOUND)


@pytest.mark.parametrize("model", MODELS)
def test_in_mixed_precision(model: str) -> None:
    """As the plain Executor runs the same mixed program, whose losses are near float32's."""
    recording = recording_of(model, 2)
    made = {tag: in_mixed_precision(program) for tag, program in recording.programs.items()}
    if None in made.values():
        pytest.skip("trains several losses")
    recording.programs = {tag: program for tag, program in made.items() if program is not None}
    hold(recording, MIXED_BOUND)


@pytest.mark.parametrize("model", MODELS)
def test_on_two_places(model: str) -> None:
    """As two plain runs on half the batch each, of which the mean of gradients is applied."""
    recording = recording_of(model, 3)
    try:
        by_hand = ByHand(recording, 2).run()
    except (EnforceNotMet, ValueError) as refused:
        with pytest.raises(type(refused)):
            run_as(recording, TWO[0])
        pytest.skip(f"its batch can't be halved: {refused}")
    for row in TWO:
        found = run_as(recording, row)
        for step, expected, values in zip(recording.steps, by_hand, found, strict=True):
            for position, name in enumerate(step.fetches):
                if name in expected:
                    want = _joined(expected[name])
                    error = relative_error(values[f"fetch {position}"].array, want)
                    assert error <= BOUND, (name, row)


def _joined(values: list[Any]) -> Any:
    return np.concatenate([np.atleast_1d(np.array(value)) for value in values])
