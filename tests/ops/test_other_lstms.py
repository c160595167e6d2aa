"""The dense LSTM is torch's; the one with attention agrees with going row by row."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Offsets
from refluid.ops.rnn.attention_lstm import attention_lstm
from refluid.ops.rnn.dense_lstm import cudnn_lstm


def _values(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64) * 0.5


def _no_seed(seed: int) -> torch.Generator | None:
    return None


@torch.no_grad()
def test_dense_lstm_takes_weights_in_cudnns_order() -> None:
    torch.manual_seed(0)
    network = torch.nn.LSTM(5, 4, 2, bidirectional=True).double()
    weights = dict(network.named_parameters())
    parts = [
        weights[f"{kind}_{where}_l{layer}{direction}"].reshape(-1)
        for kind in ("weight", "bias")
        for layer in range(2)
        for direction in ("", "_reverse")
        for where in ("ih", "hh")
    ]
    x, state, cell = _values(6, 3, 5), _values(4, 3, 4), _values(4, 3, 4)
    out, (last_h, last_c) = network(x, (state, cell))
    attrs = {"is_bidirec": True, "hidden_size": 4, "num_layers": 2}
    found = cudnn_lstm(x, state, cell, torch.cat(parts), None, **attrs, random=_no_seed)
    for one, other in zip(found, (out, last_h, last_c), strict=True):
        torch.testing.assert_close(one, other)
    with pytest.raises(EnforceNotMet, match="need 800"):
        cudnn_lstm(x, state, cell, _values(3), None, **attrs, random=_no_seed)


@torch.no_grad()
def test_attention_lstm() -> None:
    torch.manual_seed(0)
    lengths = [2, 0, 4, 1]
    x, cells, states = _values(7, 5), _values(4, 3), _values(4, 3)
    weight, bias, scalar, scalar_bias = _values(8, 1), _values(1, 1), _values(1, 1), _values(1, 1)
    lstm_weight, lstm_bias = _values(8, 12), _values(1, 12)
    terms = weight, bias, scalar, scalar_bias
    lod = (Offsets.of_lengths(lengths),)
    found = attention_lstm(x, cells, states, *terms, lstm_weight, lstm_bias, lod_X=lod)
    hidden, start = [], 0
    for number, length in enumerate(lengths):
        rows, h, c = x[start : start + length], states[number], cells[number]
        for _ in range(length):
            score = torch.relu(rows @ weight[:5] + c @ weight[5:] + bias)
            score = torch.softmax(torch.relu(score * scalar + scalar_bias), 0)
            gates = (score * rows).sum(0) @ lstm_weight[3:] + h @ lstm_weight[:3] + lstm_bias[0]
            f, i, o = torch.sigmoid(gates[:9]).split(3)
            c = f * c + i * torch.tanh(gates[9:])
            h = o * torch.tanh(c)
            hidden.append(h)
        start += length
    assert found[0] is not None
    torch.testing.assert_close(found[0], torch.stack(hidden))
