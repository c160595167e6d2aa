"""An LSTM whose input at each step is a weighted sum of all rows of the sequence."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.operator import Operator
from refluid.ops.registry import OperatorDef, operator
from refluid.ops.rnn.gate_activations import activation
from refluid.ops.sequence.batching import cut, steps_of


def _infer(definition: OperatorDef, op: Operator) -> None:
    source = op.block.var_recursive(op.input("X")[0])
    bias = op.block.var_recursive(op.input("LSTMBias")[0])
    if not (source.has_description() and bias.has_description()):
        return
    for slot in ("Hidden", "Cell"):
        for name in op.output(slot):
            var = op.block.var_recursive(name)
            var.describe(shape=(source.shape[0], bias.shape[1] // 4), dtype=source.dtype)
            var.lod_level = source.lod_level


class _Attention:
    """Weighs the rows of each sequence by the cell: softmax(relu(scalar * relu(x w + c v)))."""

    def __init__(
        self,
        rows: Tensor,
        weight: Tensor,
        offsets: Offsets,
        order: list[int],
        terms: tuple[Tensor | None, Tensor | None, Tensor | None],
    ) -> None:
        count, longest, columns = len(offsets), offsets.longest, rows.shape[1]
        device = rows.device
        self._bias, self._scalar, self._scalar_bias = terms
        self._of_cell = weight[columns:]
        self.of_rows = rows @ weight[:columns]
        place = offsets.owners(device), offsets.positions(device)
        padded = rows.new_zeros(count, longest, columns)
        padded[place] = rows
        scores = rows.new_zeros(count, longest)
        scores[place] = self.of_rows.view(-1)
        inside = torch.zeros(count, longest, dtype=torch.bool, device=device)
        inside[place] = True
        chosen = torch.tensor(order, device=device)
        self._rows, self._scores, self._inside = padded[chosen], scores[chosen], inside[chosen]

    def __call__(self, cell: Tensor) -> Tensor:
        """The sums for the first sequences, as many as there are cells."""
        count = cell.shape[0]
        score = self._scores[:count] + cell @ self._of_cell
        if self._bias is not None:
            score = score + self._bias.reshape(())
        score = torch.relu(score)
        if self._scalar is not None:
            score = score * self._scalar.reshape(())
            if self._scalar_bias is not None:
                score = score + self._scalar_bias.reshape(())
            score = torch.relu(score)
        score = score.masked_fill(~self._inside[:count], float("-inf"))
        share = torch.softmax(score, 1).unsqueeze(1)
        return torch.bmm(share, self._rows[:count]).squeeze(1)


@operator(
    "attention_lstm",
    outputs="Hidden Cell AttentionedX? AttentionFCOut? LSTMX? LSTMOUT?",
    uses=None,
    infer=_infer,
)
def attention_lstm(
    X: Tensor,
    C0: Tensor,
    H0: Tensor | None,
    AttentionWeight: Tensor,
    AttentionBias: Tensor | None,
    AttentionScalar: Tensor | None,
    AttentionScalarBias: Tensor | None,
    LSTMWeight: Tensor,
    LSTMBias: Tensor,
    *,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    lod_X: Levels,
) -> tuple[Tensor | None, ...]:
    """Hidden and Cell (rows, width) of each sequence of X (rows, columns).

    At each step the rows of the sequence are summed, weighted by how they and the cell score with
    AttentionWeight (columns + width, 1); the sum is the LSTM's input. LSTMWeight (width +
    columns, 4 * width), its first rows for the hidden state, and LSTMBias (1, 4 * width) are in
    the order forget, input, output, candidate. C0 and H0 (sequences, width): initial states.
    """
    if not lod_X:
        raise EnforceNotMet("attention_lstm needs sequences: X has no LoD")
    layout = steps_of(lod_X, "attention_lstm", False, X.device)
    width = LSTMBias.numel() // 4
    gate, cell_act, candidate = map(
        activation, (gate_activation, cell_activation, candidate_activation)
    )
    terms = AttentionBias, AttentionScalar, AttentionScalarBias
    attend = _Attention(X, AttentionWeight, lod_X[-1], layout.order, terms)
    of_hidden, of_input = LSTMWeight[:width], LSTMWeight[width:]
    hidden, cells = X.new_empty(layout.total, width), X.new_empty(layout.total, width)
    cell = layout.sorted(C0)
    state = None if H0 is None else layout.sorted(H0)
    steps = zip(layout.sizes, cut(hidden, layout.sizes), cut(cells, layout.sizes), strict=True)
    for count, new_hidden, new_cell in steps:
        cell = cell[:count]
        gates = torch.addmm(LSTMBias.reshape(-1), attend(cell), of_input)
        if state is not None:
            gates.addmm_(state[:count], of_hidden)
        gate.apply(gates[:, : 3 * width])
        f, i, o, c = gates.chunk(4, 1)
        torch.mul(f, cell, out=new_cell).addcmul_(i, candidate.apply(c))
        cell_act.into(new_cell, new_hidden)
        state, cell = new_hidden.mul_(o), new_cell
    return layout.to_rows(hidden), layout.to_rows(cells), attend.of_rows, None, None, None
