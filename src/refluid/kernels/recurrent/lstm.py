"""LSTM over sequences: a product and a compiled loop for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.compiled import bound
from refluid.kernels.products import repeated
from refluid.kernels.recurrent.lstm_loops import (
    lstm_step,
    lstm_step_back,
    lstm_steps_at_once,
    lstm_steps_back_at_once,
)
from refluid.kernels.recurrent.steps import are_at_once, begun, ordered, require_sizes, sizes_of

_LstmMade = tuple[Tensor, Tensor, Tensor, Tensor]


def lstm_steps(*given: Any) -> _LstmMade:
    """Hidden and Cell by rows, gates and activated cells by places, all made of:

    inputs (rows, 4 * width), columns (candidate, input, forget, output); weight (width, 4 *
    width); biases (4 * width); peepholes (3, width) or (0, width); the first state and cell of
    the sequences, sorted, or None; the row of each place; where each step begins, and how
    many places there are; the activations of gates, cell and candidate, by number.
    """
    found: _LstmMade = torch.ops.refluid.lstm_steps(*given)
    return found


def lstm_gradients(*given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """By rows the gradient of the inputs, and Hidden and Cell of the steps before (the latter with
    peepholes only); then those of the first state and cell of the sequences, sorted.

    given: the gradient of Hidden; what `lstm_steps` made; its other arguments, from weight on but
    for the biases.
    """
    found: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
    found = torch.ops.refluid.lstm_gradients(*given)
    return found


def _require(
    weight: Tensor, peephole: Tensor, state: Tensor | None, cell: Tensor | None, first: int
) -> None:
    width = weight.shape[0]
    require_sizes(weight=(weight, (width, 4 * width)))
    require_sizes(peephole=(peephole, (len(peephole) and 3, width)))
    for one in (state, cell):
        require_sizes(state=(None if one is None else one[:first], (first, width)))


def _forward(
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor,
    peephole: Tensor,
    state: Tensor | None,
    cell: Tensor | None,
    rows: Tensor,
    starts: Tensor,
    acts: Sequence[int],
) -> _LstmMade:
    total, width = inputs.shape[0], weight.shape[0]
    inputs, sizes = inputs.contiguous(), sizes_of(starts)
    _require(weight, peephole, state, cell, sizes[0])
    require_sizes(input=(inputs, (len(rows), 4 * width)), bias=(bias, (4 * width,)))
    hidden, cells, active = (inputs.new_empty(total, width) for _ in range(3))
    made = hidden, cells, inputs.new_empty(total, 4 * width), active
    states, products = begun(state, sizes[0], inputs, width), inputs.new_empty(sizes[0], 4 * width)
    given = (
        ordered(starts, rows, width),
        (inputs, products, int(state is not None), int(cell is not None)),
        (bias, peephole),
        (states, begun(cell, sizes[0], inputs, width)),
        made,
        tuple(acts),
    )
    if are_at_once(sizes[0], weight):
        lstm_steps_at_once(*given, weight.contiguous())
        return made
    run = bound(lstm_step, *given)
    multiply = repeated(weight, sizes[0], len(sizes))
    for step, count in enumerate(sizes):
        if step or state is not None:
            multiply(products[:count], states[:count])
        run(step)
    return made


def _backward(
    d_hidden: Tensor,
    hidden: Tensor,
    cells: Tensor,
    gates: Tensor,
    active: Tensor,
    weight: Tensor,
    peephole: Tensor,
    state: Tensor | None,
    cell: Tensor | None,
    rows: Tensor,
    starts: Tensor,
    acts: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    (total, width), sizes = hidden.shape, sizes_of(starts)
    _require(weight, peephole, state, cell, sizes[0])
    like = (len(rows), weight.shape[0])
    require_sizes(hidden=(hidden, like), cell=(cells, like), gradient=(d_hidden, like))
    require_sizes(active=(active, like), gates=(gates, (like[0], 4 * like[1])))
    d_inputs, before = torch.empty_like(gates), torch.empty_like(hidden)
    cell_before = hidden.new_empty(total if len(peephole) else 0, width)
    d_steps = hidden.new_empty(sizes[0], 4 * width)
    d_states, d_cells = (hidden.new_zeros(sizes[0], width) for _ in range(2))
    given = (
        ordered(starts, rows, width),
        (d_hidden.contiguous(), d_states, d_cells),
        (hidden, cells, gates, active, peephole),
        (begun(state, sizes[0], hidden, width), begun(cell, sizes[0], hidden, width)),
        (d_inputs, d_steps, before, cell_before),
        tuple(acts),
    )
    found = d_inputs, before, cell_before, d_states, d_cells
    if are_at_once(sizes[0], weight):
        lstm_steps_back_at_once(*given, weight.t().contiguous())
        return found
    run, multiply = bound(lstm_step_back, *given), repeated(weight.t(), sizes[0], len(sizes))
    for step, count in reversed([*enumerate(sizes)]):
        run(step)
        multiply(d_states[:count], d_steps[:count])
    return found


# Operators of torch's, which those who watch calls see.
if not hasattr(torch.ops.refluid, "lstm_steps"):  # they are there where this is loaded anew
    _library: Any = torch.library.Library("refluid", "FRAGMENT")  # type: ignore[no-untyped-call]
    _library.define(
        "lstm_steps(Tensor inputs, Tensor weight, Tensor bias, Tensor peephole, Tensor? state, "
        "Tensor? cell, Tensor rows, Tensor starts, int[] acts) -> (Tensor, Tensor, Tensor, Tensor)"
    )
    _library.define(
        "lstm_gradients(Tensor d_hidden, Tensor hidden, Tensor cells, Tensor gates, Tensor active, "
        "Tensor weight, Tensor peephole, Tensor? state, Tensor? cell, Tensor rows, Tensor starts, "
        "int[] acts) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
    )
    _library.impl("lstm_steps", _forward, "CPU")
    _library.impl("lstm_gradients", _backward, "CPU")
