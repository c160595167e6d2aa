"""LSTM over time steps: one matrix product and a few fused operations for each step.

Rows are in the order of `batching_sequences`; gates are columns (candidate, input, forget,
output). Whatever does not depend on the step before is done for all steps at once: in the
backward pass that is everything but two products per step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from refluid.core import flags
from refluid.kernels.products import add_product_, product
from refluid.ops.rnn.gate_activations import Activation, activation
from refluid.ops.sequence.batching import TimeMajor, cut


@dataclass(frozen=True)
class Projection:
    """What LSTMP puts after a cell: hidden @ weight, activated and clipped."""

    weight: Tensor
    act: Activation
    clip: float


@dataclass(frozen=True)
class Recurrence:
    """What a step computes. peephole: (3, width), of the gates input, forget and output.

    On a CPU Fluid 1.8 loses the gradient of the cell where its vectorised kernel runs: in float32,
    a width divisible by 8, no cell clipping. Such LSTMs learn by their output gate alone, here with
    FLAGS_refluid_fluid_cpu_faults only.
    """

    weight: Tensor
    peephole: Tensor | None
    gate: Activation
    cell: Activation
    candidate: Activation
    cell_clip: float = 0.0
    projection: Projection | None = None

    @property
    def learns_cell(self) -> bool:
        """Whether gradients pass through the cell."""
        width = self.weight.shape[1] // 4
        vectorised = self.weight.dtype == torch.float32 and width % 8 == 0
        lost = vectorised and self.cell_clip <= 0 and self.weight.device.type == "cpu"
        return not (lost and flags.value("refluid_fluid_cpu_faults"))


def projected(
    weights: tuple[Tensor, Tensor, Tensor | None],
    names: Sequence[str],
    clips: tuple[float, float],
) -> Recurrence:
    """An LSTM with one. weights: Weight, ProjWeight and peepholes; names of the activations of
    gates, cell, candidate and projection; clips of the cell and of the projection."""
    weight, projecting, peephole = weights
    gate, cell, candidate, project = map(activation, names)
    behind = Projection(projecting, project, clips[1])
    return Recurrence(weight, peephole, gate, cell, candidate, clips[0], behind)


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
    """gates: before activation, zero but for `columns`. state and cell: of the initial ones.

    These are sorted, and may lack the sequences without rows.
    """

    gates: Tensor
    columns: slice
    projected: Tensor | None
    state: Tensor
    cell: Tensor


def peephole_of(bias: Tensor, width: int, used: bool) -> Tensor | None:
    """The peephole weights, (3, width), that follow the 4 * width biases."""
    return bias.reshape(-1)[4 * width :].view(3, width) if used else None


def bias_gradient(bias: Tensor, d_gates: Tensor, cell: Tensor, before: Tensor | None) -> Tensor:
    """The gradient of biases and, where the cells before are given, of the peepholes."""
    sums = [d_gates.sum(0)]
    if before is not None:
        _, d_i, d_f, d_o = d_gates.chunk(4, 1)
        sums += [(d_i * before).sum(0), (d_f * before).sum(0), (d_o * cell).sum(0)]
    unused = bias.numel() - sum(one.numel() for one in sums)
    if unused:
        sums.append(bias.new_zeros(unused))
    return (torch.cat(sums) if len(sums) > 1 else sums[0]).view(bias.shape)


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
        cut(gates, sizes),
        *(cut(part, sizes) for part in gates.chunk(4, 1)),
        cut(gates[:, width : (4 if one.peephole is None else 3) * width], sizes),
        cut(gates[:, width : 3 * width].view(total, 2, width), sizes),
        *(cut(made, sizes) for made in (cells, active, hidden, output)),
        strict=True,
    )
    for every, c, i, f, o, early, peeped, new_cell, new_active, new_hidden, new_output in columns:
        rows = every.shape[0]
        if state is not None:
            add_product_(every, state[:rows], one.weight)
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
    width, sizes, project = made.cell.shape[1], layout.sizes, one.projection
    slopes = torch.zeros_like(made.gates)
    one.gate.backward(made.active, made.gates[:, 3 * width :], slopes[:, 3 * width :])
    path = None
    if one.learns_cell:
        path = _CellPath(one, made, layout.previous(made.cell, cell), slopes, sizes)
    columns = slice(0 if one.learns_cell else 3 * width, None)
    back = one.weight[:, columns].t()
    bend = None if project is None else cut(_bend(project, made.output), sizes)
    parts = (
        cut(d_output, sizes),
        cut(slopes[:, columns], sizes),
        cut(slopes[:, 3 * width :], sizes),
    )
    later: Tensor | None = None
    for step in range(len(sizes) - 1, -1, -1):
        grad, every, last = (part[step] for part in parts)
        if later is not None:
            add_product_(grad[: later.shape[0]], later, back)
        if project is not None and bend is not None:
            grad = product(grad.mul_(bend[step]), project.weight.t())
        last.mul_(grad)
        if path is not None:
            path.step(step, grad)
        later = every
    state = d_output[:0] if later is None else later @ back
    d_cell = made.cell[:0] if path is None else path.later
    projected = None if project is None else d_output
    return StepGradients(slopes, columns, projected, state, d_cell)


class _CellPath:
    """The way of gradients through the cells: fills the gates candidate, input and forget.

    slopes hold what one unit of hidden's gradient is for the output gate; they become the
    gradients. later: the gradient of the cell before the last step done.
    """

    def __init__(
        self, one: Recurrence, made: Steps, previous: Tensor, slopes: Tensor, sizes: list[int]
    ) -> None:
        width = previous.shape[1]
        c, i, f, o = made.gates.chunk(4, 1)
        d_c, d_i, d_f, d_o = slopes.chunk(4, 1)
        one.candidate.backward(i, c, d_c)
        one.gate.backward(c, i, d_i)
        one.gate.backward(previous, f, d_f)
        through = one.cell.backward(o, made.active, torch.empty_like(made.active))
        carry = f
        if one.peephole is not None:
            through.addcmul_(d_o, one.peephole[2])
            carry = torch.addcmul(f, d_i, one.peephole[0]).addcmul_(d_f, one.peephole[1])
        kept = _kept(made.cell, one.cell_clip)
        self._kept = None if kept is None else cut(kept, sizes)
        early = slopes[:, : 3 * width].view(slopes.shape[0], 3, width)
        self._early = cut(early, sizes)
        self._through, self._carry = cut(through, sizes), cut(carry, sizes)
        self.later = through.new_empty(0, width)

    def step(self, number: int, grad: Tensor) -> None:
        """Goes back through a step whose hidden state has that gradient."""
        d_cell = grad * self._through[number]
        d_cell[: self.later.shape[0]].add_(self.later)
        if self._kept is not None:
            d_cell.mul_(self._kept[number])
        self._early[number].mul_(d_cell.unsqueeze(1))
        self.later = d_cell.mul_(self._carry[number])


def _kept(values: Tensor, clip: float) -> Tensor | None:
    """1 where clipping left a value alone, else 0; None without clipping."""
    return (values.abs() < clip).to(values.dtype) if clip > 0 else None


def _bend(project: Projection, output: Tensor) -> Tensor:
    """The slope of activation and clipping of a projection."""
    slope = project.act.backward(torch.ones_like(output), output, torch.empty_like(output))
    kept = _kept(output, project.clip)
    return slope if kept is None else slope.mul_(kept)
