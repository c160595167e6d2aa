"""Compiled loops count chunks, and samples by their scores, bit by bit as torch and NumPy do."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.kernels.labelling import counts
from refluid.ops import by_loops
from refluid.ops.metric.chunks import chunk_eval
from refluid.ops.metric.evaluation import auc

FLAG = "FLAGS_refluid_recurrent_loops"
KINDS = {"IOB": 2, "IOE": 2, "IOBES": 4, "plain": 1}


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Loops from the first call on; which are called."""
    seen: list[str] = []

    def noted(name: str, known: Any) -> Any:
        def call(*given: Any) -> Any:
            seen.append(name)
            return known(*given)

        return call

    monkeypatch.setattr(by_loops, "_calls", repeat(by_loops._OFTEN))
    for name in ("count_chunks", "count_scores"):
        monkeypatch.setattr(counts, name, noted(name, getattr(counts, name)))
    yield seen


def tags_of(
    draws: np.random.Generator, scheme: str, types: int
) -> tuple[Tensor, Tensor, Tensor | None, Levels]:
    """Tags found and wanted, which often agree, in rows with a LoD or padded with lengths."""
    lengths = [int(one) for one in draws.integers(0, 9, draws.integers(1, 7))]
    most, shape = types * KINDS[scheme] + 3, (sum(lengths), 1)
    padded = bool(draws.integers(2))
    if padded:
        shape = len(lengths), max(lengths) + 2
        lengths[0] += int(draws.integers(2)) * 9  # as many as there are
    wanted = draws.integers(-1, most, shape)
    found = np.where(draws.random(shape) < 0.8, wanted, draws.integers(-1, most, shape))
    tags = torch.from_numpy(found), torch.from_numpy(wanted)
    if padded:
        return *tags, torch.tensor(lengths), ()
    return *tags, None, (Offsets.of_lengths(lengths),)


@pytest.mark.parametrize("excluded", [[], [1], (0, 2)])
@pytest.mark.parametrize("scheme", KINDS)
def test_any_chunks(scheme: str, excluded: Any, runs: list[str]) -> None:
    draws = np.random.default_rng(len(excluded))
    attrs: Any = {"num_chunk_types": 3, "chunk_scheme": scheme, "excluded_chunk_types": excluded}
    right = 0
    for _ in range(60):
        *given, lod = tags_of(draws, scheme, 3)
        found = chunk_eval(*given, **attrs, lod_Label=lod)  # type: ignore[arg-type]
        ran = len(runs)
        with flags.override({FLAG: False}):
            wanted = chunk_eval(*given, **attrs, lod_Label=lod)  # type: ignore[arg-type]
        assert len(runs) == ran
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype is other.dtype
            assert torch.equal(one, other)
        right += int(found[5])
    assert {*runs} == {"count_chunks"}
    assert right > 60


@pytest.mark.parametrize("lengths", [[9, -1], [0, 0]])
def test_lengths_of_chunks_beyond_what_is_there(lengths: list[int]) -> None:
    tags = torch.tensor([[0, 1, 1], [2, 3, 0]])
    given = tags, tags, torch.tensor(lengths)
    found = chunk_eval(*given, num_chunk_types=2, lod_Label=())
    with flags.override({FLAG: False}):
        wanted = chunk_eval(*given, num_chunk_types=2, lod_Label=())
    assert all(map(torch.equal, found, wanted))


def test_what_chunks_are_left_to_torch(runs: list[str]) -> None:
    tags, lod = torch.tensor([[0], [1], [2]]), (Offsets([0, 3]),)
    chunk_eval(tags, tags.repeat(1, 2)[:, :1], num_chunk_types=2, lod_Label=lod)
    chunk_eval(tags[:0], tags[:0], num_chunk_types=2, lod_Label=(Offsets([0]),))
    for given, own in (((tags, tags), ()), ((tags, tags), (Offsets([0, 2]),))):
        with pytest.raises(EnforceNotMet):
            chunk_eval(*given, num_chunk_types=2, lod_Label=own)
    assert not runs


def stats_of(draws: np.random.Generator, thresholds: int, window: int) -> list[Tensor]:
    """Buckets of both classes, in which something is."""
    size = (thresholds + 1) * (window + 1) + 1 if window else thresholds + 1
    found = [torch.from_numpy(draws.integers(0, 5, (1, size))) for _ in range(2)]
    if window:
        for one in found:
            one[0, -1] = int(draws.integers(9))
            batches = one[0, :-1].view(window + 1, -1)
            batches[window] = batches[:window].sum(0)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_any_scores(seed: int, runs: list[str]) -> None:
    draws = np.random.default_rng(seed)
    thresholds, window = int(draws.choice([1, 7, 100, 4095])), int(draws.integers(0, 4))
    stats = stats_of(draws, thresholds, window)
    for _ in range(8):
        rows = int(draws.integers(1, 40))
        scores = torch.from_numpy(draws.random((rows, int(draws.integers(1, 4)))).astype("float32"))
        scores[:2, -1] = torch.tensor([0.0, 1.0])[:rows]
        labels = torch.from_numpy(draws.integers(0, 3, (rows, 1)))
        before = [one.clone() for one in stats]
        attrs = {"num_thresholds": thresholds, "slide_steps": window}
        area, *kept = auc(scores, labels, *stats, **attrs)
        assert all(one is other for one, other in zip(kept, stats, strict=True))
        ran = len(runs)
        with flags.override({FLAG: False}):
            wanted, *_ = auc(scores, labels, *before, **attrs)
        assert len(runs) == ran
        assert torch.equal(area, wanted)
        assert all(map(torch.equal, stats, before))
    assert {*runs} == {"count_scores"}


@pytest.mark.parametrize("most", [2**20, 2**30, 2**40])
def test_areas_of_many_samples(most: int) -> None:
    """Of so many that their pairs aren't whole numbers in float64, too."""
    draws = np.random.default_rng(0)
    for window in (0, 1):
        stats = stats_of(draws, 63, window)
        for one in stats:
            counted = one[0, -65:-1] if window else one[0]
            counted.copy_(torch.from_numpy(draws.integers(0, most // 64, 64)))
        before = [one.clone() for one in stats]
        given = torch.tensor([[0.3], [0.7]]), torch.tensor([[0], [1]])
        area, *_ = auc(*given, *stats, num_thresholds=63, slide_steps=window)
        with flags.override({FLAG: False}):
            wanted, *_ = auc(*given, *before, num_thresholds=63, slide_steps=window)
        assert torch.equal(area, wanted)


@pytest.mark.parametrize("wrong", [1.5, -0.2, float("nan"), float("inf")])
def test_scores_out_of_range_count_nothing(wrong: float) -> None:
    stats = [torch.arange(17)[None] for _ in range(2)]
    scores, labels = torch.tensor([[0.5], [wrong]]), torch.tensor([[0], [1]])
    with pytest.raises(EnforceNotMet, match="numbers from 0 to 1"):
        auc(scores, labels, *stats, num_thresholds=7)
    assert all(torch.equal(one, torch.arange(17)[None]) for one in stats)


def test_what_scores_are_left_to_numpy(runs: list[str]) -> None:
    stats = [torch.zeros(1, 8, dtype=torch.int64) for _ in range(2)]
    scores, labels = torch.tensor([[0.5], [1.0]]), torch.tensor([[0], [1]])
    for given in (
        (scores.double(), labels, *stats),
        (scores, labels.int(), *stats),
        (torch.rand(2, 2).t(), labels, *stats),
    ):
        auc(*given, num_thresholds=7, slide_steps=0)
    with pytest.raises(EnforceNotMet, match="as many"):
        auc(scores, labels[:1], *stats, num_thresholds=7, slide_steps=0)
    with pytest.raises(EnforceNotMet, match="as many"):
        auc(scores, labels[None], *stats, num_thresholds=7, slide_steps=0)
    with pytest.raises(ValueError, match="shapes"):
        auc(scores, labels, stats[0], stats[1][:, :5], num_thresholds=7, slide_steps=0)
    assert not runs
