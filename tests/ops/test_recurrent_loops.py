"""LSTM and GRU by compiled loops are what they are by torch's kernels, and row by row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid import fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.kernels import recurrent
from refluid.kernels.products import limits
from refluid.kernels.recurrent import steps
from refluid.ops import by_loops
from refluid.ops.rnn import gate_activations
from refluid.ops.rnn.gate_activations import loops_of
from refluid.ops.rnn.gru import gru, gru_grad
from refluid.ops.rnn.lstm import lstm, lstm_grad
from refluid.runtime.recorded.trial import compiling_at_once
from tests.ops import recurrences

FLAG = "FLAGS_refluid_recurrent_loops"
ACTS = "sigmoid", "tanh", "relu", "identity"
KERNELS = "lstm_steps", "lstm_gradients", "gru_steps", "gru_gradients"
WIDTHS = 1, 3, 8, 16, 17, 40, 130
layers = fluid.layers
Given = dict[str, Any]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Few numbers by the loops, too; as many threads afterwards as before."""
    monkeypatch.setattr(gate_activations, "_MANY", 1)
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

    for name in KERNELS:
        monkeypatch.setattr(recurrent, name, noted(name, getattr(recurrent, name)))
    return seen


def numbers(draws: np.random.Generator, *shape: int, scale: float = 0.5) -> Tensor:
    return torch.from_numpy(draws.normal(0.0, scale, shape).astype("float32"))


def drawn(draws: np.random.Generator, gates: int) -> tuple[list[int], Given]:
    """Lengths of sequences, of which some may be 0, and what a unit with `gates` gates takes."""
    lengths = [int(one) for one in draws.integers(0, 7, draws.integers(1, 9))]
    lengths[int(draws.integers(len(lengths)))] += 1
    rows, count, width = sum(lengths), len(lengths), int(draws.choice(WIDTHS))
    given: Given = {"Input": numbers(draws, rows, gates * width)}
    given["H0"] = numbers(draws, count, width) if draws.integers(2) else None
    if gates == 4:
        given["C0"] = numbers(draws, count, width) if draws.integers(2) else None
    given["Weight"] = numbers(draws, width, gates * width, scale=0.6 / width**0.5)
    return lengths, given


def lstm_of(draws: np.random.Generator) -> tuple[list[int], Given, Given]:
    lengths, given = drawn(draws, 4)
    peepholes = bool(draws.integers(2))
    given["Bias"] = numbers(draws, 1, (7 if peepholes else 4) * given["Weight"].shape[0])
    acts = {f"{name}_activation": str(draws.choice(ACTS)) for name in ("cell", "candidate")}
    acts["gate_activation"] = str(draws.choice(ACTS[:2]))
    return (
        lengths,
        given,
        {"use_peepholes": peepholes, "is_reverse": bool(draws.integers(2)), **acts},
    )


def gru_of(draws: np.random.Generator) -> tuple[list[int], Given, Given]:
    lengths, given = drawn(draws, 3)
    given["Bias"] = numbers(draws, 1, given["Input"].shape[1]) if draws.integers(4) else None
    acts = {"gate_activation": str(draws.choice(ACTS[:2])), "activation_": str(draws.choice(ACTS))}
    modes = {name: bool(draws.integers(2)) for name in ("is_reverse", "origin_mode")}
    return lengths, given, acts | modes


UNITS = {"lstm": (lstm_of, lstm, lstm_grad), "gru": (gru_of, gru, gru_grad)}


def lod_of(lengths: list[int]) -> Levels:
    return (Offsets.of_lengths(lengths),)


def results(unit: str, given: Given, attrs: Given, lengths: list[int], grad: Tensor) -> list[Any]:
    """All outputs, and all gradients from that of Hidden."""
    _, forward, backward = UNITS[unit]
    lod = lod_of(lengths)
    made = forward(*given.values(), **attrs, lod_Input=lod)[:4]
    return [*made, *backward(*given.values(), *made, grad, **attrs, lod_Input=lod)]


def close(found: list[Any], wanted: list[Any]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            # Sums of terms that cancel are rounded as the largest are, which unbounded activations
            # make as large as 150: either way is then that far from double precision.
            size = float(other.abs().max()) if other.numel() else 0.0
            atol = max(2e-5, 2e-6 * size)
            torch.testing.assert_close(one, other.float(), rtol=2e-5, atol=atol)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("seed", range(12))
def test_any_units(unit: str, seed: int, runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(seed)
    for _ in range(12):
        torch.set_num_threads(int(draws.integers(1, 5)))
        monkeypatch.setattr(steps, "_AT_ONCE", int(draws.choice([0, 2**18])))
        lengths, given, attrs = UNITS[unit][0](draws)
        grad = numbers(draws, sum(lengths), given["Weight"].shape[0])
        kept = [None if one is None else one.clone() for one in (*given.values(), grad)]
        found = results(unit, given, attrs, lengths, grad)
        close([*given.values(), grad], kept)  # nothing given is written over
        ran = len(runs)
        with flags.override({FLAG: False}):
            close(found, results(unit, given, attrs, lengths, grad))
        assert len(runs) == ran
    assert {f"{unit}_steps", f"{unit}_gradients"} == {*runs}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("seed", range(4))
def test_gradients_of_what_the_other_way_made(unit: str, seed: int) -> None:
    """Steps are left to loops from some call on, which may be that of a gradient."""
    draws = np.random.default_rng(200 + seed)
    lengths, given, attrs = UNITS[unit][0](draws)
    _, forward, backward = UNITS[unit]
    grad, lod = numbers(draws, sum(lengths), given["Weight"].shape[0]), lod_of(lengths)
    wanted = results(unit, given, attrs, lengths, grad)
    for loops in (False, True):
        with flags.override({FLAG: loops}):
            made = forward(*given.values(), **attrs, lod_Input=lod)[:4]
        with flags.override({FLAG: not loops}):
            found = backward(*given.values(), *made, grad, **attrs, lod_Input=lod)
        close([*made, *found], wanted)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("seed", range(4))
def test_row_by_row(unit: str, seed: int) -> None:
    draws = np.random.default_rng(100 + seed)
    lengths, given, attrs = UNITS[unit][0](draws)
    given["H0"] = None  # with it Fluid's sequences without rows have gradients of their own
    real = {
        name: None if one is None else one.double().requires_grad_() for name, one in given.items()
    }
    walked = getattr(recurrences, unit)(real, lengths, attrs)
    hidden = walked[0] if unit == "lstm" else walked
    grad = numbers(draws, *hidden.shape)
    inputs = [one for one in real.values() if one is not None]
    wanted = torch.autograd.grad(hidden, inputs, grad.double(), allow_unused=True)
    found = results(unit, given, attrs, lengths, grad)
    close([found[0 if unit == "lstm" else 3]], [hidden.detach()])
    close([one for one in found[4:] if one is not None], [*wanted])


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_stays_in_its_sequence(unit: str, odd: float) -> None:
    draws = np.random.default_rng(7)
    gates = 4 if unit == "lstm" else 3
    given: Given = {"Input": numbers(draws, 9, gates * 20), "H0": None}
    given |= {"C0": None} if gates == 4 else {}
    given |= {"Weight": numbers(draws, 20, gates * 20), "Bias": numbers(draws, 1, gates * 20)}
    attrs: Given = {"use_peepholes": False} if gates == 4 else {}
    grad = numbers(draws, 9, 20)
    plain = results(unit, given, attrs, [3, 4, 2], grad)
    given["Input"][4, 7] = odd
    found = results(unit, given, attrs, [3, 4, 2], grad)
    with flags.override({FLAG: False}):
        wanted = results(unit, given, attrs, [3, 4, 2], grad)
    for one, other in zip(found, wanted, strict=True):
        if one is not None:
            assert torch.equal(one.isfinite(), other.isfinite())
    hidden = 0 if unit == "lstm" else 3
    assert torch.equal(found[hidden][:3], plain[hidden][:3])
    assert torch.equal(found[hidden][7:], plain[hidden][7:])


def test_who_takes_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.zeros(8, 16)
    assert loops_of(x, None, x) is recurrent
    assert loops_of(x, x.double()) is None
    assert loops_of(x, torch.zeros(1, device="meta")) is None
    watched = torch.zeros(2, requires_grad=True)
    assert loops_of(x, watched) is None
    with torch.no_grad():
        assert loops_of(x, watched) is recurrent
    monkeypatch.setattr(gate_activations, "_MANY", 129)
    monkeypatch.setattr(by_loops, "_calls", count())
    monkeypatch.setattr(by_loops, "_OFTEN", 3)
    assert [loops_of(x) for _ in range(5)] == [None] * 3 + [recurrent] * 2
    monkeypatch.setattr(by_loops, "_calls", count())
    monkeypatch.setattr(limits, "repeatable", True)
    assert loops_of(x) is recurrent
    assert loops_of(x[:0]) is None  # there are no steps


@pytest.mark.parametrize("unit", UNITS)
def test_wrong_sizes_are_refused(unit: str) -> None:
    """Loops don't look where they write."""
    draws = np.random.default_rng(3)
    lengths, given, attrs = UNITS[unit][0](draws)
    width = given["Weight"].shape[0]
    grad = numbers(draws, sum(lengths), width)
    for slot in ("Input", "Weight"):
        wrong = given | {slot: torch.nn.functional.pad(given[slot], (0, 12))}
        with pytest.raises(EnforceNotMet):
            results(unit, wrong, attrs, lengths, grad)
    rows, starts = torch.arange(4), torch.tensor([0, 2, 4])
    for columns, height in ((33, 8), (32, 9)):
        sized = torch.ones(4, columns), torch.ones(height, 32), torch.ones(32)
        with pytest.raises(RuntimeError, match="of a recurrent unit is"):
            if unit == "lstm":
                empty = torch.empty(0, 8)
                recurrent.lstm_steps(*sized, empty, None, None, rows, starts, (1, 2, 2))
            else:
                gates = sized[1][:, :16], sized[1][:, :8], sized[2][:24]
                recurrent.gru_steps(sized[0][:, 7:], *gates, None, rows, starts, (1, 2, 0))
    with pytest.raises(RuntimeError, match="gradient of a recurrent unit"):
        results(unit, given | {"H0": None}, attrs, lengths, grad[:-1])


def test_kernels_leave_first_states_alone() -> None:
    state, cell = torch.ones(2, 8), torch.ones(2, 8)
    rows, starts = torch.arange(4), torch.tensor([0, 2, 4])
    weight, bias, none = torch.ones(8, 32), torch.ones(32), torch.empty(0, 8)
    order, gates = (rows, starts), (weight[:, :16], weight[:, :8], bias[:24])
    recurrent.lstm_steps(torch.ones(4, 32), weight, bias, none, state, cell, *order, (1, 2, 2))
    recurrent.gru_steps(torch.ones(4, 24), *gates, state, *order, (1, 2, 0))
    assert torch.equal(state, torch.ones(2, 8))
    assert torch.equal(cell, state)


@pytest.mark.parametrize("unit", UNITS)
def test_arrays_with_gaps(unit: str) -> None:
    draws = np.random.default_rng(11)
    lengths, given, attrs = UNITS[unit][0](draws)
    grad = numbers(draws, sum(lengths), given["Weight"].shape[0])
    wanted = results(unit, given, attrs, lengths, grad)
    gaps = given | {"Input": given["Input"].repeat(1, 2)[:, : given["Input"].shape[1]]}
    close(results(unit, gaps, attrs, lengths, grad), wanted)


def _losses(tier: str, loops: bool) -> list[float]:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
        word = layers.embedding(ids, (50, 12))
        first, _ = layers.dynamic_lstm(layers.fc(word, 4 * 24), 4 * 24)
        last = layers.dynamic_gru(layers.fc(first, 3 * 16), 16, is_reverse=True)
        loss = layers.reduce_mean(layers.square(layers.sequence_pool(last, "max")))
        fluid.optimizer.Adam(0.01).minimize(loss)
    draws, scope, found = np.random.default_rng(0), fluid.Scope(), []
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(scope), flags.override({FLAG: loops, "FLAGS_refluid_tier": tier}):
        executor.run(startup)
        for _ in range(6):
            lengths = [int(one) for one in draws.integers(1, 6, 4)]
            rows = draws.integers(0, 50, (sum(lengths), 1))
            feed = {"ids": fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())}
            found += [float(one.item()) for one in executor.run(main, feed, [loss])]
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "tier", ["interpreted", "recorded", pytest.param("compiled", marks=pytest.mark.slow)]
)
def test_programs_train_as_without(tier: str, runs: list[str]) -> None:
    with compiling_at_once():
        found = _losses(tier, True)
    assert {*runs} == {*KERNELS}
    np.testing.assert_allclose(found, _losses(tier, False), rtol=1e-4)
