"""Layers of LSTM over a dense batch, all weights in one tensor: Fluid's `cudnn_lstm`."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.ops.registry import OperatorDef, operator
from refluid.ops.required import require_equal
from refluid.ops.signature import AnyValue, Random


def _infer(definition: OperatorDef, op: Operator) -> None:
    source = op.block.var_recursive(op.input("Input")[0])
    state = op.block.var_recursive(op.input("InitH")[0])
    if not source.has_description():
        return
    columns = op.attrs["hidden_size"] * (2 if op.attrs["is_bidirec"] else 1)
    out = op.block.var_recursive(op.output("Out")[0])
    out.describe(shape=(*source.shape[:2], columns), dtype=source.dtype)
    for slot in ("last_h", "last_c"):
        for name in op.output(slot):
            op.block.var_recursive(name).describe(shape=state.shape, dtype=source.dtype)


def _weights(flat: Tensor, columns: int, width: int, layers: int, directions: int) -> list[Tensor]:
    """Matrices and biases as torch wants them, from cuDNN's order: matrices first, then biases.

    Each layer and direction has the four gates' input matrix and hidden matrix, (4 * width,
    columns) and (4 * width, width), and later two biases of 4 * width.
    """
    shapes = []
    for layer in range(layers):
        before = columns if layer == 0 else directions * width
        shapes += [(4 * width, before), (4 * width, width)] * directions
    biases = [(4 * width,)] * (2 * layers * directions)
    sizes = [torch.Size(shape).numel() for shape in [*shapes, *biases]]
    if sum(sizes) != flat.numel():
        raise EnforceNotMet(
            f"cudnn_lstm: W has {flat.numel()} elements, but {layers} layers of {width} with "
            f"input of {columns} and {directions} directions need {sum(sizes)}"
        )
    parts = torch.split_with_sizes(flat.reshape(-1), sizes)
    matrices = [part.view(shape) for part, shape in zip(parts, shapes, strict=False)]
    rest = parts[len(shapes) :]
    return [
        weight
        for pair in range(0, len(shapes), 2)
        for weight in (*matrices[pair : pair + 2], *rest[pair : pair + 2])
    ]


@operator(
    "cudnn_lstm",
    outputs="Out last_h last_c",
    uses="Input InitH InitC W Cache Out",
    differentiable="Input InitH InitC W",
    infer=_infer,
    working={"Out": 10.0},
    of_gradient={"working": {"Out": 16.5}},
)
def cudnn_lstm(
    Input: Tensor,
    InitH: Tensor,
    InitC: Tensor,
    W: Tensor,
    Cache: AnyValue = None,
    *,
    max_len: int = 20,
    dropout_prob: float = 0.0,
    is_bidirec: bool = False,
    input_size: int = 10,
    hidden_size: int = 100,
    num_layers: int = 1,
    is_test: bool = False,
    seed: int = -1,
    random: Random,
) -> tuple[Tensor, Tensor, Tensor]:
    """Out (steps, batch, width * directions) and the last states of Input (steps, batch, columns).

    InitH, InitC, last_h and last_c are (layers * directions, batch, width). W holds all weights
    as cuDNN lays them out, gates in the order input, forget, candidate, output. dropout_prob
    applies between layers in training; a seed of -1 draws new numbers each time.
    """
    directions = 2 if is_bidirec else 1
    columns = Input.shape[2]
    for name, state in (("InitH", InitH), ("InitC", InitC)):
        wanted = num_layers * directions, Input.shape[1], hidden_size
        require_equal(name, state, "layers by rows by units", wanted)
    weights = _weights(W, columns, hidden_size, num_layers, directions)
    per_layer = 4 * directions
    x, hidden, cell, generator = Input, [], [], random(max(seed, 0))
    for layer in range(num_layers):
        if layer and dropout_prob > 0 and not is_test:
            kept = torch.empty_like(x).bernoulli_(1.0 - dropout_prob, generator=generator)
            x = x * kept / (1.0 - dropout_prob)
        chosen = slice(layer * directions, (layer + 1) * directions)
        x, last_h, last_c = torch.lstm(
            x,
            (InitH[chosen].contiguous(), InitC[chosen].contiguous()),
            weights[layer * per_layer : (layer + 1) * per_layer],
            has_biases=True,
            num_layers=1,
            dropout=0.0,
            train=not is_test,
            bidirectional=is_bidirec,
            batch_first=False,
        )
        hidden.append(last_h)
        cell.append(last_c)
    return x, torch.cat(hidden), torch.cat(cell)
