"""LSTM over sequences, without and with a projection of the hidden state."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core import flags
from refluid.core.offsets import Levels
from refluid.ir.operator import Operator
from refluid.kernels.products import product
from refluid.ops.registry import OperatorDef, gradient, operator
from refluid.ops.required import require_states
from refluid.ops.rnn.gate_activations import activation, loops_of, numbers_of
from refluid.ops.rnn.lstm_steps import (
    Recurrence,
    StepGradients,
    Steps,
    bias_gradient,
    lstm_backward,
    lstm_forward,
    peephole_of,
    projected,
)
from refluid.ops.rnn.widths import require_declared_widths, require_widths
from refluid.ops.sequence.batching import TimeMajor, steps_of

Grads = tuple[Tensor | None, ...]
_KEPT = {"Hidden": 1, "Projection": 1, "Cell": 1}
_WIDTHS = {"Cell": 4, "Hidden": 4, "BatchGate": 1, "BatchCellPreAct": 4, "BatchHidden": 4}


def _infer(definition: OperatorDef, op: Operator) -> None:
    """Rows are those of Input; the result's sequences are Input's, a batch has none."""
    if definition.type == "lstm":  # one with a projection takes H0 alone, too
        require_states(op)
    require_declared_widths(op, 4, op.attrs["use_peepholes"])
    source = op.block.var_recursive(op.input("Input")[0])
    if not source.has_description():
        return
    rows, columns = source.shape
    for slot in definition.outputs:
        for name in op.output(slot.name):
            if slot.name == "Projection":
                width = op.block.var_recursive(op.input("ProjWeight")[0]).shape[1]
            else:
                width = columns // _WIDTHS[slot.name]
            var = op.block.var_recursive(name)
            var.describe(shape=(rows, width), dtype=source.dtype)
            if slot.name in _KEPT:
                var.lod_level = source.lod_level


def recurrence(weight: Tensor, peephole: Tensor | None, acts: Sequence[str]) -> Recurrence:
    """An LSTM without projection; activations of gates, cell and candidate by name."""
    gate, cell, candidate = map(activation, acts)
    return Recurrence(weight, peephole, gate, cell, candidate)


def begin(
    gates: Tensor, bias: Tensor, layout: TimeMajor, h0: Tensor | None, c0: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gates with their bias in the order of the steps, and the sorted initial states."""
    width = gates.shape[1]
    inputs = layout.to_steps(gates).add_(bias.reshape(-1)[:width])
    state = None if h0 is None else layout.sorted(h0)
    return inputs, state, None if c0 is None else layout.sorted(c0)


def _biases(bias: Tensor, width: int, peepholes: bool) -> tuple[Tensor, Tensor]:
    """Those of the gates, [4 * width], and the peepholes, [3, width] or no rows."""
    flat = bias.reshape(-1)
    return flat[: 4 * width], flat[4 * width :][: 3 * width * peepholes].view(-1, width)


def _end(
    layout: TimeMajor,
    made: Steps,
    got: StepGradients,
    given: tuple[Tensor | None, Tensor | None, Tensor, Tensor],
    peepholes: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor, Tensor]:
    """Gradients of Input, H0, C0, Weight and Bias; `given` are H0, C0, Weight and Bias.

    As in Fluid a sequence without rows is taken to have one where H0 is multiplied: that of the
    rows after the first step.
    """
    h0, c0, weight, bias = given
    state = None if h0 is None else layout.sorted(h0)
    d_weight = torch.zeros_like(weight)
    learned = got.gates[:, got.columns]
    d_weight[:, got.columns] = product(layout.previous(made.output, state).t(), learned)
    d_state = got.state
    if state is not None and layout.idle:
        behind = learned[layout.sizes[0] :][: layout.idle]
        d_weight[:, got.columns] += product(state[layout.sizes[0] :][: len(behind)].t(), behind)
        d_state = torch.cat((d_state, product(behind, weight[:, got.columns].t())))
    before = None
    if peepholes:
        before = layout.previous(made.cell, None if c0 is None else layout.sorted(c0))
    d_bias = bias_gradient(bias, got.gates, made.cell, before)
    d_h0 = None if h0 is None else layout.unsorted(d_state, h0.shape[0])
    d_c0 = None if c0 is None else layout.unsorted(_cell_gradient(got, state), c0.shape[0])
    return layout.to_rows(got.gates), d_h0, d_c0, d_weight, d_bias


def _cell_gradient(got: StepGradients, state: Tensor | None) -> Tensor:
    """Of sequences without rows Fluid leaves what is in its memory, on a CPU H0; it should be 0."""
    if state is None or state.shape[1] != got.cell.shape[1]:
        return got.cell
    faulty = state.device.type == "cpu" and flags.value("refluid_fluid_cpu_faults")
    return torch.cat((got.cell, state[len(got.cell) :])) if faulty else got.cell


@operator(
    "lstm",
    gradient_lod="none",
    working={"Input": 1.0},
    outputs="Hidden Cell BatchGate BatchCellPreAct",
    lod="",
    makes_lod="Hidden Cell BatchGate",
    infer=_infer,
)
def lstm(
    Input: Tensor,
    H0: Tensor | None,
    C0: Tensor | None,
    Weight: Tensor,
    Bias: Tensor,
    *,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    lod_Input: Levels,
) -> tuple[Tensor | Levels, ...]:
    """Hidden and Cell (rows, width) of each sequence of Input (rows, 4 * width).

    Input holds the products of the candidate and the gates input, forget and output; Weight
    (width, 4 * width) is in that order, and Bias (1, 4 * width), which peepholes (input, forget,
    output) make 7 * width. H0 and C0 (sequences, width) are initial states. Activations:
    sigmoid, tanh, relu, identity. BatchGate (after activation) and BatchCellPreAct (the activated
    cell) are in the order of the time steps.
    """
    require_widths(4, use_peepholes, Input=Input, Weight=Weight, Bias=Bias)
    layout = steps_of(lod_Input, "lstm", is_reverse, Input.device)
    acts = gate_activation, cell_activation, candidate_activation
    made_lod = lod_Input, lod_Input, layout.levels
    loops = loops_of(Input, H0, C0, Weight, Bias)
    if loops is not None and layout.total == Input.shape[0]:
        weights = Weight, *_biases(Bias, Weight.shape[0], use_peepholes)
        order = layout.in_order(H0, C0)
        return *loops.lstm_steps(Input, *weights, *order, numbers_of(acts)), *made_lod
    one = recurrence(Weight, peephole_of(Bias, Input.shape[1] // 4, use_peepholes), acts)
    inputs, state, cell = begin(Input, Bias, layout, H0, C0)
    made = lstm_forward(inputs, layout.sizes, one, state, cell)
    rows = layout.to_rows(made.hidden), layout.to_rows(made.cell)
    return *rows, made.gates, made.active, *made_lod


@gradient("lstm", shape_only="Input", working={"Input": 1.8})
def lstm_grad(
    Input: Tensor,
    H0: Tensor | None,
    C0: Tensor | None,
    Weight: Tensor,
    Bias: Tensor,
    Hidden: Tensor,
    Cell: Tensor,
    BatchGate: Tensor,
    BatchCellPreAct: Tensor,
    d_Hidden: Tensor,
    *,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    lod_Input: Levels,
) -> Grads:
    """Gradients of Input, H0, C0, Weight and Bias from that of Hidden (Fluid asks for no other).

    As in Fluid 1.8 they may not pass through Cell: see `lstm_steps.Recurrence`.
    """
    layout = steps_of(lod_Input, "lstm_grad", is_reverse, Input.device)
    acts = gate_activation, cell_activation, candidate_activation
    one = recurrence(Weight, peephole_of(Bias, Cell.shape[1], use_peepholes), acts)
    loops = loops_of(BatchGate, H0, C0, Weight, Bias, Hidden, Cell, BatchCellPreAct, d_Hidden)
    if loops is not None and one.learns_cell and not (layout.idle and H0 is not None):
        given = d_Hidden, Hidden, Cell, BatchGate, BatchCellPreAct, Weight
        order = _biases(Bias, Cell.shape[1], use_peepholes)[1], *layout.in_order(H0, C0)
        d_rows, before, cell_before, *first = loops.lstm_gradients(*given, *order, numbers_of(acts))
        d_h0, d_c0 = (
            None if one is None else layout.unsorted(grad, one.shape[0])
            for one, grad in zip((H0, C0), first, strict=True)
        )
        d_bias = bias_gradient(Bias, d_rows, Cell, cell_before if use_peepholes else None)
        return d_rows, d_h0, d_c0, product(before.t(), d_rows), d_bias
    hidden = layout.to_steps(Hidden)
    made = Steps(BatchGate, layout.to_steps(Cell), BatchCellPreAct, hidden, hidden)
    cell = None if C0 is None else layout.sorted(C0)
    got = lstm_backward(layout.to_steps(d_Hidden), layout, one, made, cell)
    return _end(layout, made, got, (H0, C0, Weight, Bias), use_peepholes)


@operator(
    "lstmp",
    gradient_lod="none",
    outputs="Projection Cell BatchGate BatchCellPreAct BatchHidden",
    lod="",
    makes_lod="Projection Cell BatchGate",
    infer=_infer,
)
def lstmp(
    Input: Tensor,
    H0: Tensor | None,
    C0: Tensor | None,
    Weight: Tensor,
    ProjWeight: Tensor,
    Bias: Tensor,
    *,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    proj_activation: str = "tanh",
    lod_Input: Levels,
) -> tuple[Tensor | Levels, ...]:
    """`lstm` whose next step sees Projection (rows, size) = proj_activation(hidden @ ProjWeight).

    Weight is (size, 4 * width), ProjWeight (width, size), H0 (sequences, size), C0 (sequences,
    width). Clips above 0 bound Cell and Projection.
    """
    given = {"Input": Input, "Weight": Weight, "ProjWeight": ProjWeight, "Bias": Bias}
    require_widths(4, use_peepholes, **given)
    layout = steps_of(lod_Input, "lstmp", is_reverse, Input.device)
    weights = Weight, ProjWeight, peephole_of(Bias, Input.shape[1] // 4, use_peepholes)
    names = gate_activation, cell_activation, candidate_activation, proj_activation
    one = projected(weights, names, (cell_clip, proj_clip))
    inputs, state, cell = begin(Input, Bias, layout, H0, C0)
    made = lstm_forward(inputs, layout.sizes, one, state, cell)
    rows = layout.to_rows(made.output), layout.to_rows(made.cell)
    made_lod = lod_Input, lod_Input, layout.levels
    return *rows, made.gates, made.active, made.hidden, *made_lod


@gradient("lstmp")
def lstmp_grad(
    H0: Tensor | None,
    C0: Tensor | None,
    Weight: Tensor,
    ProjWeight: Tensor,
    Bias: Tensor,
    Projection: Tensor,
    Cell: Tensor,
    BatchGate: Tensor,
    BatchCellPreAct: Tensor,
    BatchHidden: Tensor,
    d_Projection: Tensor,
    *,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    proj_activation: str = "tanh",
    lod_Projection: Levels,
) -> Grads:
    """Gradients of Input, H0, C0, Weight, ProjWeight and Bias from that of Projection.

    As in Fluid 1.8 they may not pass through Cell: see `lstm_steps.Recurrence`.
    """
    layout = steps_of(lod_Projection, "lstmp_grad", is_reverse, Cell.device)
    weights = Weight, ProjWeight, peephole_of(Bias, Cell.shape[1], use_peepholes)
    names = gate_activation, cell_activation, candidate_activation, proj_activation
    one = projected(weights, names, (cell_clip, proj_clip))
    output, cells = layout.to_steps(Projection), layout.to_steps(Cell)
    made = Steps(BatchGate, cells, BatchCellPreAct, BatchHidden, output)
    cell = None if C0 is None else layout.sorted(C0)
    got = lstm_backward(layout.to_steps(d_Projection), layout, one, made, cell)
    given = (H0, C0, Weight, Bias)
    d_input, d_h0, d_c0, d_weight, d_bias = _end(layout, made, got, given, use_peepholes)
    assert got.projected is not None
    return d_input, d_h0, d_c0, d_weight, product(made.hidden.t(), got.projected), d_bias
