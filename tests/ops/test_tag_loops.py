"""CRFs by compiled loops are what they are by torch's kernels, and in double precision."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, repeat
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.kernels.labelling import crf as kernels
from refluid.kernels.products import limits
from refluid.ops import by_loops
from refluid.ops.loss import crf
from refluid.ops.loss.crf import (
    _loops_of,
    crf_decoding,
    linear_chain_crf,
    linear_chain_crf_grad,
)

FLAG = "FLAGS_refluid_recurrent_loops"
TAGS = 1, 2, 3, 9, 16, 20, 33, 57, 70
Given = tuple[Tensor, Tensor, Tensor, Tensor | None]


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loops from the first call on; as many threads afterwards as before."""
    monkeypatch.setattr(by_loops, "_calls", repeat(by_loops._OFTEN))
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which kernels of loops are called."""
    seen: list[str] = []

    def noted(name: str, known: Any) -> Any:
        def call(*given: Any) -> Any:
            seen.append(name)
            return known(*given)

        return call

    for name in ("likelihoods", "slopes", "best_paths"):
        monkeypatch.setattr(kernels, name, noted(name, getattr(kernels, name)))
    return seen


def drawn(draws: np.random.Generator, *, most: int = 8, scale: float = 1.0) -> tuple[Given, Levels]:
    """Emissions, transitions, labels and lengths, with a LoD unless padded; labels of rows that
    only fill up are no tags."""
    lengths = [int(one) for one in draws.integers(0, most, draws.integers(1, 9))]
    lengths[int(draws.integers(len(lengths)))] += 1
    tags, padded = int(draws.choice(TAGS)), bool(draws.integers(2))
    transition = torch.from_numpy(draws.normal(0, 1, (tags + 2, tags)).astype("float32"))
    if not padded:
        rows = sum(lengths)
        x = torch.from_numpy(draws.normal(0, scale, (rows, tags)).astype("float32"))
        label = torch.from_numpy(draws.integers(0, tags, (rows, 1)))
        return (x, transition, label, None), (Offsets.of_lengths(lengths),)
    shape = len(lengths), max(lengths) + int(draws.integers(3))
    x = torch.from_numpy(draws.normal(0, scale, (*shape, tags)).astype("float32"))
    label = torch.from_numpy(draws.integers(0, tags, shape))
    length = torch.tensor(lengths)
    label[torch.arange(shape[1]) >= length.view(-1, 1)] = -7
    return (x, transition, label, length.view(-1, 1)), ()


def results(given: Given, lod: Levels, grad: Tensor) -> list[Tensor | None]:
    made = linear_chain_crf(*given, lod_Emission=lod)
    back = linear_chain_crf_grad(*given, *made[:3], grad, lod_Emission=lod)
    return [*made, *back]


def grad_of(draws: np.random.Generator, given: Given, lod: Levels) -> Tensor:
    number = len(lod[0]) if lod else given[0].shape[0]
    return torch.from_numpy(draws.normal(0, 1, (number, 1)).astype("float32"))


def in_double(given: Given, lod: Levels, grad: Tensor) -> list[Tensor | None]:
    x, transition, label, length = given
    return results((x.double(), transition.double(), label, length), lod, grad.double())


def close(found: list[Any], wanted: list[Any], rtol: float = 1e-5, atol: float = 5e-6) -> None:
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other.to(one.dtype), rtol=rtol, atol=atol)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("seed", range(8))
def test_any_tags(seed: int, runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(seed)
    for _ in range(12):
        torch.set_num_threads(int(draws.integers(1, 5)))
        monkeypatch.setattr(kernels, "_FOR_TEAM", int(draws.choice([1, 2**16])))
        given, lod = drawn(draws)
        grad = grad_of(draws, given, lod)
        kept = [None if one is None else one.clone() for one in (*given, grad)]
        found = results(given, lod, grad)
        for one, other in zip((*given, grad), kept, strict=True):  # nothing is written over
            assert one is other or torch.equal(one, other)  # type: ignore[arg-type]
        ran = len(runs)
        close(found, in_double(given, lod, grad))
        with flags.override({FLAG: False}):
            close(found, results(given, lod, grad))
        assert len(runs) == ran
    assert {"likelihoods", "slopes"} == {*runs}


def test_some_hundred_rows() -> None:
    draws = np.random.default_rng(0)
    given, lod = drawn(draws, most=300)
    for scale in (1.0, 20.0):
        grad = grad_of(draws, given, lod)
        scaled: Given = (given[0] * scale, *given[1:])
        size = sum(one.numel() for one in given[:1])
        close(results(scaled, lod, grad), in_double(scaled, lod, grad), atol=1e-7 * size**0.5)


@pytest.mark.parametrize("seed", range(6))
def test_large_emissions(seed: int) -> None:
    """Up to 50 and down to -50, of which no exponential may overflow."""
    draws = np.random.default_rng(50 + seed)
    given, lod = drawn(draws)
    given[0].copy_(torch.from_numpy(draws.choice([-50.0, 0.0, 50.0], given[0].shape)))
    grad = grad_of(draws, given, lod)
    found = results(given, lod, grad)
    assert all(one is not None and one.isfinite().all() for one in found)
    close(found[3:], in_double(given, lod, grad)[3:], rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["drawn", "ties", "equal", "low", "odd"])
def test_best_paths(kind: str, seed: int, runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The very tags that torch's kernels find: of equal scores the first one's."""
    draws = np.random.default_rng(100 + seed)
    for _ in range(4):
        torch.set_num_threads(int(draws.integers(1, 5)))
        monkeypatch.setattr(kernels, "_FOR_TEAM", int(draws.choice([1, 2**16])))
        (x, transition, label, length), lod = drawn(draws)
        for one in (x, transition):
            if kind == "ties":
                one.copy_(torch.from_numpy(draws.integers(-1, 2, one.shape)))
            elif kind == "equal":
                one.zero_()
            elif kind == "low":
                one[torch.from_numpy(draws.random(one.shape) < 0.5)] = -torch.inf
            elif kind == "odd":
                for number in (torch.nan, torch.inf, -torch.inf):
                    one[torch.from_numpy(draws.random(one.shape) < 0.02)] = number
        for labels in (None, label):
            given = x, transition, labels, length
            found = crf_decoding(*given, lod_Emission=lod)
            ran = len(runs)
            with flags.override({FLAG: False}):
                wanted = crf_decoding(*given, lod_Emission=lod)
            assert len(runs) == ran
            assert found.shape == wanted.shape
            assert torch.equal(found, wanted)
    assert {*runs} == {"best_paths"}


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_stays_in_its_sequence(odd: float) -> None:
    draws = np.random.default_rng(7)
    x = torch.from_numpy(draws.normal(0, 1, (9, 20)).astype("float32"))
    transition = torch.zeros(22, 20)
    label = torch.zeros(9, 1, dtype=torch.int64)
    lod = (Offsets.of_lengths([3, 4, 2]),)
    plain = linear_chain_crf(x, transition, label, lod_Emission=lod)[3]
    x[4, 7] = odd
    found = linear_chain_crf(x, transition, label, lod_Emission=lod)[3]
    with flags.override({FLAG: False}):
        wanted = linear_chain_crf(x, transition, label, lod_Emission=lod)[3]
    assert torch.equal(found.isnan(), wanted.isnan())
    assert torch.equal(found[[0, 2]], plain[[0, 2]])


def test_numbers_are_the_same_by_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(3)
    given, lod = drawn(draws, most=90)
    grad, made = grad_of(draws, given, lod), []
    for threads, least in ((1, 1), (2, 1), (4, 1), (4, 2**40)):
        torch.set_num_threads(threads)
        monkeypatch.setattr(kernels, "_FOR_TEAM", least)
        made.append(results(given, lod, grad))
    for other in made[1:]:
        assert all(map(torch.equal, made[0], other))


@pytest.mark.parametrize("wrong", [3, -1, 2**40])
def test_labels_that_are_no_tags(wrong: int) -> None:
    x, transition = torch.zeros(4, 3), torch.zeros(5, 3)
    label, lod = torch.tensor([[0], [1], [wrong], [2]]), (Offsets.of_lengths([2, 2]),)
    with pytest.raises((RuntimeError, IndexError), match=f"index {wrong} is out of bounds"):
        linear_chain_crf(x, transition, label, lod_Emission=lod)
    made = linear_chain_crf(x, transition, label.clamp(0, 2), lod_Emission=lod)
    with pytest.raises((RuntimeError, IndexError), match=f"index {wrong} is out of bounds"):
        linear_chain_crf_grad(
            x, transition, label, None, *made[:3], torch.ones(2, 1), lod_Emission=lod
        )


def test_wrong_sizes_are_refused() -> None:
    """Loops don't look where they write."""
    padded = torch.zeros(2, 3, 4), torch.zeros(6, 4), torch.zeros(2, 3).long()
    for length in (torch.tensor([4, 1]), torch.tensor([1])):
        with pytest.raises(EnforceNotMet, match="does not fit"):
            linear_chain_crf(*padded, length, lod_Emission=())
        with pytest.raises(EnforceNotMet, match="does not fit"):
            crf_decoding(*padded[:2], None, length, lod_Emission=())
    cost = linear_chain_crf(*padded, torch.tensor([-5, 2]), lod_Emission=())[3]
    assert cost[0] == 0
    assert not cost.signbit()[0]
    x, transition, label = torch.zeros(4, 3), torch.zeros(5, 3), torch.zeros(4, 1).long()
    lod = (Offsets.of_lengths([2, 2]),)
    alpha, exps, *made, cost = linear_chain_crf(x, transition, label, lod_Emission=lod)
    for given in ((alpha, exps[:3], *made, cost), (alpha, exps, *made, cost[:1])):
        with pytest.raises(RuntimeError, match="of a CRF are"):
            linear_chain_crf_grad(x, transition, label, None, *given, lod_Emission=lod)


def test_who_takes_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    x, transition, label = torch.zeros(4, 3), torch.zeros(5, 3), torch.zeros(4, 1).long()
    given = transition, label, None
    assert _loops_of(x, *given) is kernels
    assert _loops_of(x, transition, None, None) is kernels
    for refused in (
        (x.double(), *given),
        (x, transition.double(), label, None),
        (x, transition, label.int(), None),
        (x, transition[:4], label, None),
        (x, transition, label[:3], None),
        (x.t().contiguous().t(), *given),
        (x[:0], *given),
        (x, *given, torch.zeros(4, 3).double()),
        (x.requires_grad_(), *given),
        (x.to("meta"), *given),
    ):
        assert _loops_of(*refused) is None  # type: ignore[arg-type]
    with torch.no_grad():
        assert _loops_of(x, *given) is kernels
        assert _loops_of(x, *given, most=2) is None
        monkeypatch.setattr(by_loops, "_calls", count())
        monkeypatch.setattr(by_loops, "_OFTEN", 3)
        assert [_loops_of(x, *given) for _ in range(5)] == [None] * 3 + [kernels] * 2
        monkeypatch.setattr(by_loops, "_calls", count())
        monkeypatch.setattr(limits, "repeatable", True)
        assert _loops_of(x, *given) is kernels
        monkeypatch.setattr(limits, "repeatable", False)
        monkeypatch.setattr(crf, "_MANY", 36)
        assert _loops_of(x, *given) is kernels
        assert _loops_of(x[:3], transition, label[:3], None) is None
