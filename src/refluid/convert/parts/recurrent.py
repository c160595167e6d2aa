"""Recurrent layers over sequences, with Fluid's gates."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn as nn
from torch import Tensor

from refluid.convert.parts.sequences import reverse_sequences, rows_of_steps, time_steps


class GRUStep(nn.Module):
    """A step of gated recurrent units. x (n, 3 * size): update, reset, candidate.

    Unlike torch.nn.GRUCell it multiplies the state by the reset gate before the weights, and x has
    been through a layer of its own. origin: the update gate keeps the state instead of replacing
    it.
    """

    def __init__(
        self,
        size: int,
        bias: bool = True,
        origin: bool = False,
        act: Callable[[Tensor], Tensor] = torch.tanh,
        gate: Callable[[Tensor], Tensor] = torch.sigmoid,
    ):
        super().__init__()
        self.gates = nn.Linear(size, 2 * size, bias=False)
        self.candidate = nn.Linear(size, size, bias=False)
        self.bias = nn.Parameter(torch.zeros(3 * size)) if bias else None
        self.size, self.origin, self.act, self.gate = size, origin, act, gate

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        """The next state (n, size)."""
        x = x if self.bias is None else x + self.bias
        gates = self.gate(x[:, : 2 * self.size] + self.gates(state))
        update, reset = gates.chunk(2, 1)
        candidate = self.act(x[:, 2 * self.size :] + self.candidate(reset * state))
        old, new = (candidate, state) if self.origin else (state, candidate)
        return torch.lerp(old, new, update)


class GRU(nn.Module):
    """A `GRUStep` over sequences."""

    def __init__(
        self,
        size: int,
        bias: bool = True,
        reverse: bool = False,
        origin: bool = False,
        act: Callable[[Tensor], Tensor] = torch.tanh,
        gate: Callable[[Tensor], Tensor] = torch.sigmoid,
    ):
        super().__init__()
        self.cell = GRUStep(size, bias, origin, act, gate)
        self.reverse = reverse

    def forward(self, x: Tensor, lengths: Tensor, state: Tensor | None = None) -> Tensor:
        """All states (rows, size); `state`: the first ones (sequences, size)."""
        x = reverse_sequences(x, lengths) if self.reverse else x
        if state is None:
            state = x.new_zeros(len(lengths), self.cell.size)
        else:
            state = state[lengths.argsort(descending=True, stable=True)]
        states = []
        for row in time_steps(x, lengths):
            state = self.cell(row, state[: len(row)])
            states.append(state)
        out = rows_of_steps(states, lengths)
        return reverse_sequences(out, lengths) if self.reverse else out


class LSTM(nn.Module):
    """LSTM over sequences. x (rows, 4 * size): candidate, input, forget, output.

    Unlike torch.nn.LSTM it may have peepholes, a projected state that is clipped, and other
    activations; x has been through a layer of its own.
    """

    def __init__(
        self,
        size: int,
        projected: int = 0,
        peepholes: bool = True,
        reverse: bool = False,
        cell_clip: float = 0.0,
        proj_clip: float = 0.0,
        gate: Callable[[Tensor], Tensor] = torch.sigmoid,
        act: Callable[[Tensor], Tensor] = torch.tanh,
        candidate: Callable[[Tensor], Tensor] = torch.tanh,
        proj_act: Callable[[Tensor], Tensor] = torch.tanh,
    ):
        super().__init__()
        self.hidden = nn.Linear(projected or size, 4 * size)
        self.peephole = nn.Parameter(torch.zeros(3, size)) if peepholes else None
        self.projection = nn.Linear(size, projected, bias=False) if projected else None
        self.size, self.reverse = size, reverse
        self.cell_clip, self.proj_clip = cell_clip, proj_clip
        self.gate, self.act, self.candidate, self.proj_act = gate, act, candidate, proj_act

    def step(self, x: Tensor, state: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """The next state and cell."""
        c, i, f, o = (x + self.hidden(state)).chunk(4, 1)
        if self.peephole is not None:
            i, f = i + cell * self.peephole[0], f + cell * self.peephole[1]
        cell = self.gate(i) * self.candidate(c) + self.gate(f) * cell
        if self.cell_clip:
            cell = cell.clamp(-self.cell_clip, self.cell_clip)
        if self.peephole is not None:
            o = o + cell * self.peephole[2]
        state = self.gate(o) * self.act(cell)
        if self.projection is not None:
            state = self.proj_act(self.projection(state))
            if self.proj_clip:
                state = state.clamp(-self.proj_clip, self.proj_clip)
        return state, cell

    def forward(
        self,
        x: Tensor,
        lengths: Tensor,
        state: Tensor | None = None,
        cell: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """All states and cells (rows, size)."""
        x = reverse_sequences(x, lengths) if self.reverse else x
        order = lengths.argsort(descending=True, stable=True)
        width = self.hidden.in_features
        state = x.new_zeros(len(lengths), width) if state is None else state[order]
        cell = x.new_zeros(len(lengths), self.size) if cell is None else cell[order]
        states, cells = [], []
        for row in time_steps(x, lengths):
            state, cell = self.step(row, state[: len(row)], cell[: len(row)])
            states.append(state)
            cells.append(cell)
        out = rows_of_steps(states, lengths), rows_of_steps(cells, lengths)
        if self.reverse:
            return reverse_sequences(out[0], lengths), reverse_sequences(out[1], lengths)
        return out
