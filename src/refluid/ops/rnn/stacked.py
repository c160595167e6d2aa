"""Recurrent layers on top of each other, as Paddle 2 has them: one kernel for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.ops.registry import OperatorDef, operator

_KERNELS: dict[str, Callable[..., Any]] = {
    "LSTM": torch.lstm,
    "GRU": torch.gru,
    "RNN_TANH": torch.rnn_tanh,
    "RNN_RELU": torch.rnn_relu,
}


def _infer(definition: OperatorDef, op: Operator) -> None:
    x = op.block.var_recursive(op.input("Input")[0])
    count = 2 if op.attrs["is_bidirec"] else 1
    size = int(op.attrs["hidden_size"])
    if x.has_description():
        out = op.block.var_recursive(op.output("Out")[0])
        out.describe(shape=(*x.shape[:2], count * size), dtype=x.dtype)
        for name in op.output("State"):
            state = (count * int(op.attrs["num_layers"]), x.shape[1], size)
            op.block.var_recursive(name).describe(shape=state, dtype=x.dtype)


@operator(
    "rnn",
    outputs="Out State*",
    uses="Input PreState WeightList SequenceLength",
    differentiable="Input PreState WeightList",
    amp="keep",
    lod="",
    infer=_infer,
)
def rnn(
    Input: Tensor,
    PreState: list[Tensor] | None,
    WeightList: list[Tensor],
    SequenceLength: Tensor | None = None,
    *,
    mode: str = "LSTM",
    hidden_size: int = 0,
    num_layers: int = 1,
    is_bidirec: bool = False,
) -> tuple[Tensor, list[Tensor]]:
    """Outputs (T, N, H) of the last layer, 2 H with `is_bidirec`, and the last states of all.

    Input (T, N, I). PreState: h, and c of LSTM, (layers, N, H), none for zeros. WeightList: of each
    layer and direction, input and hidden weights (G H, I) and (G H, H), gates one below the other,
    and their biases. mode: LSTM (input, forget, cell, output), GRU (reset, update, new), RNN_TANH,
    RNN_RELU. SequenceLength (N,): outputs beyond are 0, states those of the last step.
    """
    count = num_layers * (2 if is_bidirec else 1)
    if len(WeightList) != 4 * count:
        raise EnforceNotMet(f"rnn of {count} layers has {4 * count} weights, not {len(WeightList)}")
    kernel, number = _KERNELS[mode], 2 if mode == "LSTM" else 1
    states = PreState or [Input.new_zeros(count, Input.shape[1], hidden_size)] * number
    if len(states) != number:
        raise EnforceNotMet(f"{mode} has {number} initial states, not {len(states)}")
    start = states if number == 2 else states[0]
    how = WeightList, True, num_layers, 0.0, False, is_bidirec
    if SequenceLength is None:
        out, *last = kernel(Input, start, *how, False)
        return out, last
    packed = pack_padded_sequence(Input, SequenceLength.cpu(), enforce_sorted=False)
    order, back = packed.sorted_indices, packed.unsorted_indices
    assert order is not None and back is not None
    sorted_states = [one.index_select(1, order) for one in states]
    start = sorted_states if number == 2 else sorted_states[0]
    values, *last = kernel(packed.data, packed.batch_sizes, start, *how)
    out, _ = pad_packed_sequence(packed._replace(data=values), total_length=Input.shape[0])
    return out, [one.index_select(1, back) for one in last]
