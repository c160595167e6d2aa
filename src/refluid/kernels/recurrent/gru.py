"""GRU over sequences: two products and two compiled loops for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch import split_with_sizes as cut

from refluid.kernels.compiled import bound
from refluid.kernels.products import repeated
from refluid.kernels.recurrent.gru_loops import (
    gates_step,
    gates_step_back,
    gru_steps_at_once,
    gru_steps_back_at_once,
    state_step,
    state_step_back,
)
from refluid.kernels.recurrent.steps import are_at_once, begun, ordered, require_sizes, sizes_of

_FourTensors = tuple[Tensor, Tensor, Tensor, Tensor]


def gru_steps(*given: Any) -> _FourTensors:
    """By places gates, states times reset, and states; and the latter by rows, all made of:

    inputs (rows, 3 * width), columns (update, reset, candidate); the weights (width, 2 * width) of
    the gates and (width, width) of the candidate; biases (3 * width); the first state of the
    sequences, sorted, or None; the row of each place; where each step begins, and how many
    places there are; the activations of gates and candidate, by number, and whether update keeps
    the state.
    """
    found: _FourTensors = torch.ops.refluid.gru_steps(*given)
    return found


def gru_gradients(*given: Any) -> _FourTensors:
    """By rows the gradient of the inputs, the states of the steps before, and these times reset;
    then that of the first state of the sequences, sorted.

    given: the gradient of the states by rows; what `gru_steps` made by places; its other
    arguments, from weights on but for the biases.
    """
    found: _FourTensors = torch.ops.refluid.gru_gradients(*given)
    return found


def _require(of_gates: Tensor, of_candidate: Tensor, state: Tensor | None, first: int) -> None:
    width = of_gates.shape[0]
    require_sizes(weight=(of_gates, (width, 2 * width)), candidate=(of_candidate, (width, width)))
    require_sizes(state=(None if state is None else state[:first], (first, width)))


def _forward(
    inputs: Tensor,
    of_gates: Tensor,
    of_candidate: Tensor,
    bias: Tensor,
    state: Tensor | None,
    rows: Tensor,
    starts: Tensor,
    acts: Sequence[int],
) -> _FourTensors:
    total, width = inputs.shape[0], of_gates.shape[0]
    inputs, sizes = inputs.contiguous(), sizes_of(starts)
    _require(of_gates, of_candidate, state, sizes[0])
    require_sizes(input=(inputs, (len(rows), 3 * width)), bias=(bias, (3 * width,)))
    reset, batch, hidden = (inputs.new_empty(total, width) for _ in range(3))
    gates, states = torch.empty_like(inputs), begun(state, sizes[0], inputs, width)
    both, candidates = (inputs.new_empty(sizes[0], n * width) for n in (2, 1))
    has_state, kinds = int(state is not None), tuple(acts)
    order, other = (ordered(starts, rows, width) for _ in range(2))
    weights = of_gates, of_candidate
    if are_at_once(sizes[0], *weights):
        given = inputs, both, candidates, has_state
        made = gates, reset, batch, hidden
        whole = tuple(weight.contiguous() for weight in weights)
        gru_steps_at_once((order, other), given, bias, states, made, kinds, whole)
        return made
    of_both = inputs, both, has_state
    run_gates = bound(gates_step, order, of_both, bias, states, (gates, reset), kinds)
    rest = gates, batch, hidden
    run_state = bound(state_step, other, (candidates, has_state), states, rest, kinds)
    by_gates, by_candidate = (repeated(weight, sizes[0], len(sizes)) for weight in weights)
    for step, (count, changed) in enumerate(zip(sizes, cut(reset, sizes), strict=True)):
        continues = step > 0 or state is not None
        if continues:
            by_gates(both[:count], states[:count])
        run_gates(step)
        if continues:
            by_candidate(candidates[:count], changed)
        run_state(step)
    return gates, reset, batch, hidden


def _backward(
    d_hidden: Tensor,
    gates: Tensor,
    reset: Tensor,
    batch: Tensor,
    of_gates: Tensor,
    of_candidate: Tensor,
    state: Tensor | None,
    rows: Tensor,
    starts: Tensor,
    acts: Sequence[int],
) -> _FourTensors:
    width, sizes = of_gates.shape[0], sizes_of(starts)
    _require(of_gates, of_candidate, state, sizes[0])
    like = (len(rows), width)
    require_sizes(hidden=(batch, like), reset=(reset, like), gradient=(d_hidden, like))
    require_sizes(gates=(gates, (like[0], 3 * width)))
    d_inputs, before, reset_rows = map(torch.empty_like, (gates, batch, batch))
    d_both, d_candidates, d_states, d_resets, kept = (
        batch.new_zeros(sizes[0], n * width) for n in (2, 1, 1, 1, 1)
    )
    kinds, initial = tuple(acts), begun(state, sizes[0], batch, width)
    order, other = (ordered(starts, rows, width) for _ in range(2))
    grads = d_hidden.contiguous(), d_states, kept
    turned = of_candidate.t(), of_gates.t()
    if are_at_once(sizes[0], *turned):
        out = d_inputs, before, reset_rows, d_both, d_candidates
        made, whole = (gates, reset, batch), tuple(weight.contiguous() for weight in turned)
        own = *grads, d_resets
        gru_steps_back_at_once((order, other), own, made, initial, out, kinds, whole)
        return d_inputs, before, reset_rows, kept.add_(d_states)
    rest = d_inputs, before, d_both, d_candidates
    run_state = bound(state_step_back, order, grads, (gates, batch), initial, rest, kinds)
    written = d_inputs, before, reset_rows, d_both
    run_gates = bound(gates_step_back, other, d_resets, kept, (gates, reset), written, kinds)
    back_candidate, back_gates = (repeated(weight, sizes[0], len(sizes)) for weight in turned)
    for step, count in reversed([*enumerate(sizes)]):
        run_state(step)
        back_candidate(d_resets[:count], d_candidates[:count])
        run_gates(step)
        back_gates(d_states[:count], d_both[:count])
    return d_inputs, before, reset_rows, kept.add_(d_states)


# Operators of torch's, as in `lstm.py`.
if not hasattr(torch.ops.refluid, "gru_steps"):
    _library: Any = torch.library.Library("refluid", "FRAGMENT")  # type: ignore[no-untyped-call]
    _library.define(
        "gru_steps(Tensor inputs, Tensor of_gates, Tensor of_candidate, Tensor bias, "
        "Tensor? state, Tensor rows, Tensor starts, int[] acts) -> (Tensor, Tensor, Tensor, Tensor)"
    )
    _library.define(
        "gru_gradients(Tensor d_hidden, Tensor gates, Tensor reset, Tensor batch, Tensor of_gates, "
        "Tensor of_candidate, Tensor? state, Tensor rows, Tensor starts, int[] acts) "
        "-> (Tensor, Tensor, Tensor, Tensor)"
    )
    _library.impl("gru_steps", _forward, "CPU")
    _library.impl("gru_gradients", _backward, "CPU")
