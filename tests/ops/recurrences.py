"""LSTM and GRU sequence by sequence and row by row: obviously right, and slow."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

ACTIVATIONS: dict[str, Any] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "identity": lambda x: x,
}


def rows_of(lengths: list[int], reverse: bool) -> list[list[int]]:
    """The rows of each sequence in the order in which they are gone through."""
    found, start = [], 0
    for length in lengths:
        rows = list(range(start, start + length))
        found.append(rows[::-1] if reverse else rows)
        start += length
    return found


def lstm(given: dict[str, Any], lengths: list[int], attrs: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Output and cell of each row; with a ProjWeight the output is the projection."""
    x, weight, bias = given["Input"], given["Weight"], given["Bias"].reshape(-1)
    project = given.get("ProjWeight")
    width = x.shape[1] // 4
    gate, candidate, cell_act, proj_act = (
        ACTIVATIONS[attrs.get(f"{name}_activation", "tanh")]
        for name in ("gate", "candidate", "cell", "proj")
    )
    peephole = bias[4 * width :].view(3, width) if attrs["use_peepholes"] else bias.new_zeros(3, 1)
    out: dict[int, Tensor] = {}
    cells: dict[int, Tensor] = {}
    for number, rows in enumerate(rows_of(lengths, attrs["is_reverse"])):
        h = x.new_zeros(weight.shape[0]) if given["H0"] is None else given["H0"][number]
        c = x.new_zeros(width) if given["C0"] is None else given["C0"][number]
        for row in rows:
            a, i, f, o = (x[row] + h @ weight + bias[: 4 * width]).split(width)
            i, f = gate(i + c * peephole[0]), gate(f + c * peephole[1])
            c = i * candidate(a) + f * c
            if attrs.get("cell_clip", 0.0) > 0:
                c = c.clamp(-attrs["cell_clip"], attrs["cell_clip"])
            h = gate(o + c * peephole[2]) * cell_act(c)
            if project is not None:
                h = proj_act(h @ project)
                if attrs["proj_clip"] > 0:
                    h = h.clamp(-attrs["proj_clip"], attrs["proj_clip"])
            out[row], cells[row] = h, c
    order = range(x.shape[0])
    return torch.stack([out[row] for row in order]), torch.stack([cells[row] for row in order])


def gru(given: dict[str, Any], lengths: list[int], attrs: dict[str, Any]) -> Tensor:
    """The hidden state of each row."""
    x, bias = given["Input"], given["Bias"]
    width = x.shape[1] // 3
    flat = given["Weight"].reshape(-1)
    gates = flat[: 2 * width * width].view(width, 2 * width)
    candidate = flat[2 * width * width :].view(width, width)
    gate, act = (ACTIVATIONS[attrs[name]] for name in ("gate_activation", "activation_"))
    out: dict[int, Tensor] = {}
    for number, rows in enumerate(rows_of(lengths, attrs["is_reverse"])):
        h = x.new_zeros(width) if given["H0"] is None else given["H0"][number]
        for row in rows:
            now = x[row] if bias is None else x[row] + bias.reshape(-1)
            u, r = gate(now[: 2 * width] + h @ gates).split(width)
            c = act(now[2 * width :] + (r * h) @ candidate)
            h = u * h + (1 - u) * c if attrs["origin_mode"] else (1 - u) * h + u * c
            out[row] = h
    return torch.stack([out[row] for row in range(x.shape[0])])
