"""LSTM over time steps: one matrix product and a few fused operations for each step.

Rows are in the order of `batching_sequences`; gates are columns (candidate, input, forget,
output). Whatever does not depend on the step before is done for all steps at once: in the
backward pass that is everything but two products per step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from refluid.ops.batching_sequences import TimeMajor
from refluid.ops.gate_activations import Activation


@dataclass(frozen=True)
class Projection:
    """What LSTMP puts behind a cell: hidden @ weight, activated and clipped."""

    weight: Tensor
    act: Activation
    clip: float


@dataclass(frozen=True)
class Recurrence:
    """What a step computes. peephole: (3, width), of the gates input, forget and output."""

    weight: Tensor
    peephole: Tensor | None
    gate: Activation
    cell: Activation
    candidate: Activation
    cell_clip: float = 0.0
    projection: Projection | None = None


@dataclass(frozen=True)
class Steps:
    """What the steps made, in the order of the steps. output is hidden unless projected."""

    gates: Tensor
    cell: Tensor
    active: Tensor
    hidden: Tensor
    output: Tensor


@dataclass(frozen=True)
class StepGradients:
    """gates: before activation. state and cell: initial ones of the sequences that have rows."""

    gates: Tensor
    projected: Tensor | None
    state: Tensor
    cell: Tensor


def peephole_of(bias: Tensor, width: int, used: bool) -> Tensor | None:
    """The peephole weights, (3, width), that follow the 4 * width biases."""
    return bias.reshape(-1)[4 * width :].view(3, width) if used else None


def lstm_forward(
    gates: Tensor, sizes: list[int], one: Recurrence, state: Tensor | None, cell: Tensor | None
) -> Steps:
    """Runs the steps; gates hold input and bias, and are overwritten.

    state (of the recurrence: hidden or projection) and cell: initial values, sorted.
    """
    total, width = gates.shape[0], gates.shape[1] // 4
    cells, active, hidden = (gates.new_empty(total, width) for _ in range(3))
    project = one.projection
    output = hidden if project is None else gates.new_empty(total, project.weight.shape[1])
    columns = zip(
        gates.split(sizes),
        *(part.split(sizes) for part in gates.split(width, 1)),
        gates[:, width : (4 if one.peephole is None else 3) * width].split(sizes),
        gates[:, width : 3 * width].unflatten(1, (2, width)).split(sizes),
        *(made.split(sizes) for made in (cells, active, hidden, output)),
        strict=True,
    )
    for every, c, i, f, o, early, peeped, new_cell, new_active, new_hidden, new_output in columns:
        rows = every.shape[0]
        if state is not None:
            every.addmm_(state[:rows], one.weight)
        if one.peephole is not None and cell is not None:
            peeped.addcmul_(cell[:rows].unsqueeze(1), one.peephole[:2])
        one.candidate.apply(c)
        one.gate.apply(early)
        torch.mul(i, c, out=new_cell)
        if cell is not None:
            new_cell.addcmul_(f, cell[:rows])
        if one.cell_clip > 0:
            new_cell.clamp_(-one.cell_clip, one.cell_clip)
        if one.peephole is not None:
            one.gate.apply(o.addcmul_(new_cell, one.peephole[2]))
        one.cell.into(new_cell, new_active)
        torch.mul(o, new_active, out=new_hidden)
        if project is not None:
            torch.mm(new_hidden, project.weight, out=new_output)
            project.act.apply(new_output)
            if project.clip > 0:
                new_output.clamp_(-project.clip, project.clip)
        state, cell = new_output, new_cell
    return Steps(gates, cells, active, hidden, output)


def lstm_backward(
    d_output: Tensor, layout: TimeMajor, one: Recurrence, made: Steps, cell: Tensor | None
) -> StepGradients:
    """Gradients of the gates; d_output is overwritten."""
    previous = layout.previous(made.cell, cell)
    slopes, through, carry = _factors(one, made, previous)
    width = carry.shape[1]
    kept = _kept(made.cell, one.cell_clip)
    back, project = one.weight.t(), one.projection
    bend = None if project is None else _bend(project, made.output)
    sizes = layout.sizes
    next_gates: Tensor | None = None
    next_cell: Tensor = carry.new_empty(0, width)
    parts = (
        d_output.split(sizes),
        slopes.split(sizes),
        slopes[:, 3 * width :].split(sizes),
        slopes[:, : 3 * width].unflatten(1, (3, width)).split(sizes),
        through.split(sizes),
        carry.split(sizes),
    )
    ends = torch.tensor(sizes).cumsum(0).tolist()
    for step in range(len(sizes) - 1, -1, -1):
        grad, every, last, early, to_cell, to_before = (part[step] for part in parts)
        rows = slice(ends[step] - sizes[step], ends[step])
        later = next_cell.shape[0]
        if next_gates is not None:
            grad[:later].addmm_(next_gates, back)
        if project is not None:
            if bend is not None:
                grad.mul_(bend[rows])
            grad = grad @ project.weight.t()
        last.mul_(grad)
        d_cell = grad * to_cell
        d_cell[:later].add_(next_cell)
        if kept is not None:
            d_cell.mul_(kept[rows])
        early.mul_(d_cell.unsqueeze(1))
        next_cell, next_gates = d_cell.mul_(to_before), every
    state = d_output[:0] if next_gates is None else next_gates @ back
    return StepGradients(slopes, None if project is None else d_output, state, next_cell)


def _factors(one: Recurrence, made: Steps, previous: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What one unit of the cell's gradient (the output gate: of hidden's) is for each gate.

    And what hidden's gradient is for the cell, and the cell's for the cell before.
    """
    slopes = torch.empty_like(made.gates)
    width = previous.shape[1]
    c, i, f, o = made.gates.split(width, 1)
    d_c, d_i, d_f, d_o = slopes.split(width, 1)
    one.candidate.backward(i, c, d_c)
    one.gate.backward(c, i, d_i)
    one.gate.backward(previous, f, d_f)
    one.gate.backward(made.active, o, d_o)
    through = one.cell.backward(o, made.active, torch.empty_like(made.active))
    if one.peephole is None:
        return slopes, through, f
    through.addcmul_(d_o, one.peephole[2])
    carry = torch.addcmul(f, d_i, one.peephole[0]).addcmul_(d_f, one.peephole[1])
    return slopes, through, carry


def _kept(values: Tensor, clip: float) -> Tensor | None:
    """1 where clipping left a value alone, else 0; None without clipping."""
    return (values.abs() < clip).to(values.dtype) if clip > 0 else None


def _bend(project: Projection, output: Tensor) -> Tensor | None:
    """The slope of activation and clipping of a projection; None where it is 1."""
    slope = project.act.backward(torch.ones_like(output), output, torch.empty_like(output))
    kept = _kept(output, project.clip)
    return slope if kept is None else slope.mul_(kept)
