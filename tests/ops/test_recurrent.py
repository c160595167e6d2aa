"""Recurrent operators agree with going row by row, gradients with autograd of that."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Offsets
from refluid.ops.rnn.fused_recurrent import fused_embedding_fc_lstm, fusion_gru, fusion_lstm
from refluid.ops.rnn.gru import gru, gru_grad
from refluid.ops.rnn.lstm import lstm, lstm_grad, lstmp, lstmp_grad
from refluid.ops.rnn.recurrent_units import gru_unit, gru_unit_grad, lstm_unit, lstm_unit_grad
from refluid.ops.sequence.batching import time_major
from tests.ops import recurrences

LENGTHS = [2, 0, 4, 3, 1, 3]
ROWS, COUNT, WIDTH, SIZE = sum(LENGTHS), len(LENGTHS), 3, 2
LOD = (Offsets.of_lengths(LENGTHS),)
MODES = list(itertools.product([False, True], [False, True], [False, True]))
ACTS = [
    ("sigmoid", "tanh", "tanh", "tanh"),
    ("tanh", "relu", "identity", "sigmoid"),
    ("sigmoid", "sigmoid", "relu", "identity"),
]


def values(*shape: int) -> Tensor:
    return (torch.randn(*shape, dtype=torch.float64) * 0.5).requires_grad_()


def close(found: Any, wanted: Any) -> None:
    given = [one for one in found if one is not None]
    assert len(given) == len(wanted)
    for one, other in zip(given, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def pulled(output: Tensor, given: dict[str, Tensor | None]) -> tuple[Tensor, list[Tensor]]:
    """A gradient for the output, and what autograd makes of it for all inputs."""
    grad = torch.randn_like(output)
    wanted = torch.autograd.grad(output, [one for one in given.values() if one is not None], grad)
    return grad, list(wanted)


def with_idle(
    gradients: list[Tensor], given: dict[str, Tensor | None], reverse: bool
) -> list[Tensor]:
    """As Fluid has gradients where a sequence has no rows and H0 is given: it is taken to have a
    first step, for which the row behind those of the real first steps stands in.
    """
    names = [name for name, one in given.items() if one is not None]
    named = dict(zip(names, gradients, strict=True))
    state, weight = given["H0"], given["Weight"]
    if state is not None and weight is not None:
        layout = time_major(LOD[0], reverse, torch.device("cpu"))
        (idle,) = [place for place, length in enumerate(LENGTHS) if not length]
        row = named["Input"][layout.rows[COUNT - 1]]
        named["Weight"] = named["Weight"] + torch.outer(state[idle], row)
        named["H0"] = named["H0"].clone()
        named["H0"][idle] = weight @ row
    return [one.detach() for one in named.values()]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def inputs(gates: int, bias: int, state: int, initial: bool) -> dict[str, Tensor | None]:
    return {
        "Input": values(ROWS, gates * WIDTH),
        "H0": values(COUNT, state) if initial else None,
        "C0": values(COUNT, WIDTH) if initial else None,
        "Weight": values(state, gates * WIDTH),
        "Bias": values(1, bias * WIDTH),
    }


@pytest.mark.parametrize("acts", ACTS)
@pytest.mark.parametrize(("peepholes", "reverse", "initial"), MODES)
def test_lstm(acts: tuple[str, ...], peepholes: bool, reverse: bool, initial: bool) -> None:
    given = inputs(4, 7 if peepholes else 4, WIDTH, initial)
    names = ("gate_activation", "cell_activation", "candidate_activation")
    attrs = {"use_peepholes": peepholes, "is_reverse": reverse}
    attrs |= dict(zip(names, acts, strict=False))
    wanted = recurrences.lstm(given, LENGTHS, attrs)
    with torch.no_grad():
        made = lstm(*given.values(), **attrs, lod_Input=LOD)[:4]
    close(made[:2], wanted)
    grad, gradients = pulled(wanted[0], given)
    gradients = with_idle(gradients, given, reverse)
    with torch.no_grad():
        close(lstm_grad(*given.values(), *made, grad, **attrs, lod_Input=LOD), gradients)


@pytest.mark.parametrize("clips", [(0.0, 0.0), (0.6, 0.3)])
@pytest.mark.parametrize("acts", ACTS)
@pytest.mark.parametrize(("peepholes", "reverse", "initial"), MODES)
def test_lstmp(
    acts: tuple[str, ...], peepholes: bool, reverse: bool, initial: bool, clips: tuple[float, float]
) -> None:
    given = inputs(4, 7 if peepholes else 4, SIZE, initial)
    bias = given.pop("Bias")
    given |= {"ProjWeight": values(WIDTH, SIZE), "Bias": bias}
    names = ("gate_activation", "cell_activation", "candidate_activation", "proj_activation")
    attrs = {"use_peepholes": peepholes, "is_reverse": reverse}
    attrs |= dict(zip(names, acts, strict=True))
    attrs |= {"cell_clip": clips[0], "proj_clip": clips[1]}
    wanted = recurrences.lstm(given, LENGTHS, attrs)
    with torch.no_grad():
        made = lstmp(*given.values(), **attrs, lod_Input=LOD)[:5]
    close(made[:2], wanted)
    grad, gradients = pulled(wanted[0], given)
    gradients = with_idle(gradients, given, reverse)
    rest = list(given.values())[1:]
    with torch.no_grad():
        close(lstmp_grad(*rest, *made, grad, **attrs, lod_Projection=LOD), gradients)


@pytest.mark.parametrize("acts", ACTS)
@pytest.mark.parametrize(("origin", "reverse", "initial"), MODES)
def test_gru(acts: tuple[str, ...], origin: bool, reverse: bool, initial: bool) -> None:
    given = inputs(3, 3, WIDTH, initial)
    del given["C0"]
    if acts[2] == "relu":
        given["Bias"] = None
    attrs = {"gate_activation": acts[0], "activation_": acts[1]}
    attrs |= {"is_reverse": reverse, "origin_mode": origin}
    wanted = recurrences.gru(given, LENGTHS, attrs)
    with torch.no_grad():
        made = gru(*given.values(), **attrs, lod_Input=LOD)[:4]
    close([made[3]], [wanted])
    grad, gradients = pulled(wanted, given)
    with torch.no_grad():
        close(gru_grad(*given.values(), *made, grad, **attrs, lod_Input=LOD), gradients)


@pytest.mark.parametrize("origin", [False, True])
def test_gru_unit_is_a_step(origin: bool) -> None:
    given = {
        "Input": values(4, 3 * WIDTH),
        "H0": values(4, WIDTH),
        "Weight": values(WIDTH, 3 * WIDTH),
        "Bias": values(1, 3 * WIDTH),
    }
    names = {"gate_activation": "tanh", "activation_": "relu"}
    wanted = recurrences.gru(given, [1] * 4, names | {"is_reverse": False, "origin_mode": origin})
    attrs = {"gate_activation": 2, "activation": 3, "origin_mode": origin}
    with torch.no_grad():
        gate, reset, hidden = gru_unit(*given.values(), **attrs)
    close([hidden], [wanted])
    grad, gradients = pulled(wanted, given)
    with torch.no_grad():
        close(gru_unit_grad(*given.values(), gate, reset, grad, **attrs), gradients)


def test_lstm_unit_gradient() -> None:
    x, before = values(3, 8), values(3, 2)
    cell, hidden = lstm_unit(x, before, forget_bias=0.7)
    d_cell, d_hidden = torch.randn_like(cell), torch.randn_like(hidden)
    wanted = torch.autograd.grad([cell, hidden], [x, before], [d_cell, d_hidden])
    with torch.no_grad():
        found = lstm_unit_grad(x, before, cell, d_cell, d_hidden, forget_bias=0.7)
    close(found, wanted)


def test_steps_are_noted_as_in_fluid() -> None:
    offsets = (Offsets.of_lengths([1, 2, 1, 2]),)
    lod = lstm(
        torch.zeros(6, 4), None, None, torch.zeros(1, 4), torch.zeros(1, 7), lod_Input=offsets
    )[-1]
    assert [list(level.values) for level in lod] == [[0, 4, 6], [1, 4, 0, 3, 2, 5], [1, 3, 0, 2]]


def test_cell_gradient_is_lost_where_fluids_cpu_loses_it() -> None:
    """On a CPU in float32, at a width divisible by 8, without cell clipping."""
    lod = (Offsets.of_lengths([3, 2]),)
    weights = torch.randn(8, 32), torch.zeros(1, 32)
    x = torch.randn(5, 32)
    attrs: dict[str, Any] = {"use_peepholes": False, "lod_Input": lod}
    made = lstm(x, None, None, *weights, **attrs)[:4]
    with flags.override({"FLAGS_refluid_fluid_cpu_faults": True}):
        lost = lstm_grad(x, None, None, *weights, *made, torch.ones(5, 8), **attrs)
    assert lost[0] is not None
    assert not lost[0][:, :24].any()
    assert lost[0][:, 24:].all()
    whole = lstm_grad(x, None, None, *weights, *made, torch.ones(5, 8), **attrs)
    double = [one.double() for one in (x, *weights)]
    exact = [one.double() for one in made]
    attrs["lod_Input"] = lod
    wanted = lstm_grad(
        double[0], None, None, *double[1:], *exact, torch.ones(5, 8).double(), **attrs
    )
    for one, other in zip(whole, wanted, strict=True):
        if one is not None:
            torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_fused_ones_are_product_and_recurrence() -> None:
    x, state = values(ROWS, 5), values(COUNT, WIDTH)
    first, weight, bias = values(5, 4 * WIDTH), values(WIDTH, 4 * WIDTH), values(1, 7 * WIDTH)
    wanted = lstm(x @ first, state, state, weight, bias, lod_Input=LOD)[:2]
    close(fusion_lstm(x, first, weight, bias, state, state, lod_X=LOD)[:2], wanted)
    ids = torch.randint(0, 5, (ROWS, 1))
    wanted = lstm(first[ids[:, 0]], None, None, weight, bias, lod_Input=LOD)[:2]
    close(fused_embedding_fc_lstm(ids, first, weight, bias, lod_Ids=LOD)[:2], wanted)
    first, weight, bias = values(5, 3 * WIDTH), values(WIDTH, 3 * WIDTH), values(1, 3 * WIDTH)
    wanted = gru(x @ first, state, weight, bias, lod_Input=LOD)[3:4]
    close(fusion_gru(x, state, first, weight, bias, lod_X=LOD)[4:], wanted)


@torch.no_grad()
def test_nothing_but_empty_sequences() -> None:
    lod = (Offsets([0, 0, 0]),)
    made = lstm(values(0, 12), None, None, values(3, 12), values(1, 21), lod_Input=lod)[:4]
    assert [one.shape for one in made] == [(0, 3), (0, 3), (0, 12), (0, 3)]


def test_without_sequences_the_error_says_what_to_do() -> None:
    with pytest.raises(EnforceNotMet, match="lod_level=1"):
        gru(values(2, 9), None, values(3, 9), lod_Input=())
    with pytest.raises(EnforceNotMet, match="'swish' is no activation"):
        gru(values(2, 9), None, values(3, 9), activation_="swish", lod_Input=LOD)
