"""GRU over sequences. Columns are (update, reset, candidate)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from refluid.core.offsets import Levels
from refluid.ir.operator import Operator
from refluid.kernels.products import add_product_, product
from refluid.ops.registry import OperatorDef, gradient, operator
from refluid.ops.rnn.gate_activations import Activation, activation, loops_of, numbers_of
from refluid.ops.rnn.widths import require_declared_widths, require_widths
from refluid.ops.sequence.batching import TimeMajor, cut, steps_of

Grads = tuple[Tensor | None, ...]


@dataclass(frozen=True)
class GruStep:
    """What a step computes. origin: the update gate keeps the state instead of replacing it."""

    gates: Tensor
    candidate: Tensor
    gate: Activation
    act: Activation
    origin: bool


def gru_step(weight: Tensor, gate: Activation, act: Activation, origin: bool) -> GruStep:
    """weight: in memory (width, 2 * width) of the gates, then (width, width) of the candidate."""
    width = weight.shape[0]
    flat = weight.reshape(-1)
    first, second = cut(flat, (2 * width * width, width * width))
    return GruStep(first.view(width, 2 * width), second.view(width, width), gate, act, origin)


def gru_forward(
    gates: Tensor, sizes: list[int], one: GruStep, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The states before the candidate times reset, and the states, in the order of the steps.

    gates hold input and bias; they become the gates' values.
    """
    total, width = gates.shape[0], gates.shape[1] // 3
    reset = gates.new_zeros(total, width)
    hidden = gates.new_empty(total, width)
    columns = zip(
        cut(gates[:, : 2 * width], sizes),
        *(cut(part, sizes) for part in gates.chunk(3, 1)),
        cut(reset, sizes),
        cut(hidden, sizes),
        strict=True,
    )
    for both, u, r, c, new_reset, new_hidden in columns:
        before = None if state is None else state[: both.shape[0]]
        if before is None:
            one.gate.apply(both)
            one.act.apply(c)
            torch.mul(1 - u if one.origin else u, c, out=new_hidden)
        else:
            one.gate.apply(add_product_(both, before, one.gates))
            torch.mul(r, before, out=new_reset)
            one.act.apply(add_product_(c, new_reset, one.candidate))
            start, end = (c, before) if one.origin else (before, c)
            torch.lerp(start, end, u, out=new_hidden)
        state = new_hidden
    return reset, hidden


def gru_backward(
    d_hidden: Tensor, sizes: list[int], one: GruStep, gates: Tensor, previous: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the gates before activation and of the first states; overwrites d_hidden."""
    width = previous.shape[1]
    u, r, c = gates.chunk(3, 1)
    slopes = torch.empty_like(gates)
    d_u, d_r, d_c = slopes.chunk(3, 1)
    rest = 1 - u
    fresh, kept = (rest, u) if one.origin else (u, rest)
    one.act.backward(fresh, c, d_c)
    one.gate.backward(previous - c if one.origin else c - previous, u, d_u)
    one.gate.backward(previous, r, d_r)
    parts = [
        cut(part, sizes)
        for part in (
            d_hidden,
            slopes.view(slopes.shape[0], 3, width)[:, ::2],
            slopes[:, : 2 * width],
            d_r,
            d_c,
            r,
            kept,
        )
    ]
    back_gates, back_candidate = one.gates.t(), one.candidate.t()
    earlier = d_hidden.new_empty(0, width)
    for step in range(len(sizes) - 1, -1, -1):
        grad, outer, both, d_reset, d_candidate, reset, keep = (part[step] for part in parts)
        grad[: earlier.shape[0]].add_(earlier)
        outer.mul_(grad.unsqueeze(1))
        d_state = product(d_candidate, back_candidate)
        d_reset.mul_(d_state)
        earlier = d_state.mul_(reset).addcmul_(grad, keep)
        add_product_(earlier, both, back_gates)
    return slopes, earlier


def weight_gradient(d_gates: Tensor, previous: Tensor, reset: Tensor) -> Tensor:
    """The gradient of the weights, (width, 3 * width) laid out as `gru_step` takes them."""
    width = previous.shape[1]
    first = product(previous.t(), d_gates[:, : 2 * width])
    second = product(reset.t(), d_gates[:, 2 * width :])
    return torch.cat((first.reshape(-1), second.reshape(-1))).view(width, 3 * width)


def begin(
    gates: Tensor, bias: Tensor | None, layout: TimeMajor, h0: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Gates with their bias in the order of the steps, and the sorted initial states."""
    inputs = layout.to_steps(gates)
    if bias is not None:
        inputs.add_(bias.reshape(-1))
    return inputs, None if h0 is None else layout.sorted(h0)


def _kinds(one: GruStep, *acts: str) -> tuple[int, ...]:
    """What loops are told of a step."""
    return *numbers_of(acts), int(one.origin)


def _infer(definition: OperatorDef, op: Operator) -> None:
    require_declared_widths(op, 3)
    source = op.block.var_recursive(op.input("Input")[0])
    if not source.has_description():
        return
    rows, columns = source.shape
    for slot in definition.outputs:
        for name in op.output(slot.name):
            width = columns if slot.name == "BatchGate" else columns // 3
            var = op.block.var_recursive(name)
            var.describe(shape=(rows, width), dtype=source.dtype)
            if slot.name == "Hidden":
                var.lod_level = source.lod_level


@operator(
    "gru",
    gradient_lod="none",
    working={"Input": 1.0},
    outputs="BatchGate BatchResetHiddenPrev BatchHidden Hidden",
    lod="",
    makes_lod="BatchGate BatchHidden Hidden",
    infer=_infer,
)
def gru(
    Input: Tensor,
    H0: Tensor | None,
    Weight: Tensor,
    Bias: Tensor | None = None,
    *,
    activation_: str = "tanh",
    gate_activation: str = "sigmoid",
    is_reverse: bool = False,
    origin_mode: bool = False,
    lod_Input: Levels,
) -> tuple[Tensor | Levels, ...]:
    """Hidden (rows, width) of each sequence of Input (rows, 3 * width).

    Input holds the products of update, reset and candidate, Bias (1, 3 * width) likewise; Weight
    (width, 3 * width) holds in memory (width, 2 * width) of the gates, then (width, width) of
    the candidate. hidden = (1 - update) * before + update * candidate; origin_mode exchanges
    the two. H0 (sequences, width): the first state. Batch outputs are in the order of the steps.
    """
    require_widths(3, Input=Input, Weight=Weight, Bias=Bias)
    layout = steps_of(lod_Input, "gru", is_reverse, Input.device)
    one = gru_step(Weight, activation(gate_activation), activation(activation_), origin_mode)
    made_lod = layout.levels, layout.levels, lod_Input
    loops = loops_of(Input, H0, Weight, Bias)
    if loops is not None and layout.total == Input.shape[0]:
        bias = Input.new_zeros(Input.shape[1]) if Bias is None else Bias.reshape(-1)
        given = one.gates, one.candidate, bias, *layout.in_order(H0)
        return *loops.gru_steps(Input, *given, _kinds(one, gate_activation, activation_)), *made_lod
    gates, state = begin(Input, Bias, layout, H0)
    reset, hidden = gru_forward(gates, layout.sizes, one, state)
    return gates, reset, hidden, layout.to_rows(hidden), *made_lod


@gradient("gru", shape_only="Input", working={"Input": 1.7})
def gru_grad(
    Input: Tensor,
    H0: Tensor | None,
    Weight: Tensor,
    Bias: Tensor | None,
    BatchGate: Tensor,
    BatchResetHiddenPrev: Tensor,
    BatchHidden: Tensor,
    Hidden: Tensor,
    d_Hidden: Tensor,
    *,
    activation_: str = "tanh",
    gate_activation: str = "sigmoid",
    is_reverse: bool = False,
    origin_mode: bool = False,
    lod_Input: Levels,
) -> Grads:
    """Gradients of Input, H0, Weight and Bias."""
    layout = steps_of(lod_Input, "gru_grad", is_reverse, Input.device)
    one = gru_step(Weight, activation(gate_activation), activation(activation_), origin_mode)
    made = BatchGate, BatchResetHiddenPrev, BatchHidden
    loops = loops_of(BatchGate, H0, Weight, Bias, *made[1:], d_Hidden)
    if loops is not None:
        given = *made, one.gates, one.candidate, *layout.in_order(H0)
        kinds = _kinds(one, gate_activation, activation_)
        d_rows, before, reset, first = loops.gru_gradients(d_Hidden, *given, kinds)
        d_h0 = None if H0 is None else layout.unsorted(first, H0.shape[0])
        d_bias = None if Bias is None else d_rows.sum(0).view(Bias.shape)
        return d_rows, d_h0, weight_gradient(d_rows, before, reset), d_bias
    previous = layout.previous(BatchHidden, None if H0 is None else layout.sorted(H0))
    d_hidden = layout.to_steps(d_Hidden)
    d_gates, first = gru_backward(d_hidden, layout.sizes, one, BatchGate, previous)
    d_weight = weight_gradient(d_gates, previous, BatchResetHiddenPrev)
    d_h0 = None if H0 is None else layout.unsorted(first, H0.shape[0])
    d_bias = None if Bias is None else d_gates.sum(0).view(Bias.shape)
    return layout.to_rows(d_gates), d_h0, d_weight, d_bias
