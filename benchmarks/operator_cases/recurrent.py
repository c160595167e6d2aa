"""LSTM and GRU over sequences; PyTorch packs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_sequence, unpack_sequence

import refluid.fluid as fluid
from benchmarks.operator_cases.case import Case, Random, normal, op
from benchmarks.operator_cases.sequences import Rows, rows

WORDS, HIDDEN = 128, 256


def _cells(random: Random) -> Mapping[str, Any]:
    scale = HIDDEN**-0.5
    return {
        "Words": rows(random, WORDS, 64),
        "Projection": normal(random, WORDS, 4 * HIDDEN) * scale,
        "Weight": normal(random, HIDDEN, 4 * HIDDEN) * scale,
        "Bias": normal(random, 1, 4 * HIDDEN) * scale,
    }


def _lstm(given: Mapping[str, Any]) -> Any:
    projected = fluid.layers.mul(given["Words"], given["Projection"])
    inputs = {"Input": projected, "Weight": given["Weight"], "Bias": given["Bias"]}
    return op("lstm", "Hidden", use_peepholes=False)(inputs)


def _in_torchs_order(gates: Tensor) -> Tensor:
    """Columns candidate, input, forget, output -> rows input, forget, candidate, output."""
    candidate, enter, forget, leave = gates.chunk(4, 1)
    return torch.cat((enter, forget, candidate, leave), 1).t()


def _packed(given: Rows) -> PackedSequence:
    return pack_sequence(list(given.values.split(given.lengths)), enforce_sorted=False)


def _rows(packed: PackedSequence, data: Tensor) -> Tensor:
    return torch.cat(unpack_sequence(packed._replace(data=data)))


def _torch_lstm(words: Rows, projection: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    packed = _packed(words)
    first = bias.new_zeros(1, len(words.lengths), HIDDEN)
    cells = bias.reshape(1, -1)
    weights = [
        _in_torchs_order(projection),
        _in_torchs_order(weight),
        _in_torchs_order(cells)[:, 0],
        torch.zeros_like(bias[0]),
    ]
    out = torch.lstm(
        packed.data, packed.batch_sizes, (first, first), weights, True, 1, 0.0, True, False
    )
    return _rows(packed, out[0])


def _gates(random: Random) -> Mapping[str, Any]:
    return {
        "Input": rows(random, 3 * HIDDEN, 64),
        "Weight": normal(random, HIDDEN, 3 * HIDDEN) * HIDDEN**-0.5,
        "Bias": normal(random, 1, 3 * HIDDEN),
    }


def _torch_gru(given: Rows, weight: Tensor, bias: Tensor) -> Tensor:
    """Step by step: torch.gru applies the reset gate after the product, Fluid before it."""
    packed = _packed(given)
    early, late = weight.reshape(-1)[: 2 * HIDDEN * HIDDEN], weight.reshape(-1)[2 * HIDDEN**2 :]
    early, late = early.view(HIDDEN, 2 * HIDDEN), late.view(HIDDEN, HIDDEN)
    hidden = bias.new_zeros(len(given.lengths), HIDDEN)
    made = []
    for x in (packed.data + bias).split(packed.batch_sizes.tolist()):
        hidden = hidden[: len(x)]
        gates = torch.sigmoid(torch.addmm(x[:, : 2 * HIDDEN], hidden, early))
        update, reset = gates.chunk(2, 1)
        candidate = torch.tanh(torch.addmm(x[:, 2 * HIDDEN :], reset * hidden, late))
        hidden = torch.lerp(hidden, candidate, update)
        made.append(hidden)
    return _rows(packed, torch.cat(made))


def _unit(random: Random) -> Mapping[str, Any]:
    return {"X": normal(random, 128, 4 * 512), "C_prev": normal(random, 128, 512)}


def _torch_unit(x: Tensor, cell: Tensor) -> Tensor:
    enter, forget, leave, candidate = x.chunk(4, 1)
    cell = cell * torch.sigmoid(forget) + torch.sigmoid(enter) * torch.tanh(candidate)
    return torch.sigmoid(leave) * torch.tanh(cell)


CASES = (
    Case(
        "lstm, of projected words",
        _cells,
        _lstm,
        _torch_lstm,
        ("Words", "Projection", "Weight", "Bias"),
        ("Projection", "Weight", "Bias"),
    ),
    Case(
        "gru",
        _gates,
        op("gru", "Hidden"),
        _torch_gru,
        ("Input", "Weight", "Bias"),
        ("Weight", "Bias"),
    ),
    Case(
        "lstm_unit",
        _unit,
        op("lstm_unit", "H"),
        _torch_unit,
        ("X", "C_prev"),
        reason="Fluid's gradient operator is given X and C, and computes the gates again",
    ),
)
