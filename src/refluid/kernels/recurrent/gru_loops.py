"""The loops of `gru.py`: what a step of a GRU does besides its two products.

Gates are columns (update, reset, candidate). acts: of the gates and of the candidate, numbered as
in `rows.py`; and whether the update gate keeps the state, instead of replacing it.
"""

from __future__ import annotations

from typing import Any

from refluid.kernels.compiled import compiled
from refluid.kernels.recurrent.rows import (
    activate,
    add,
    add_product,
    bend,
    multiply,
    put,
    put_product,
)
from refluid.kernels.teams import for_team, taken


@for_team
def gates_step(
    order: Any, given: Any, bias: Any, states: Any, made: Any, acts: Any, step: Any
) -> None:
    """The gates of a step.

    order: what `steps.StepOrder` has. given: Input by rows, the products of the states before, and
    whether there are states before the first step. states: of each sequence. made: by places
    gates, of which the candidate lacks its product, and the states times reset.
    """
    counters, starts, rows, part = order
    inputs, products, has_state = given
    gates, reset = made
    width = states.shape[1]
    begin, count = starts[step], starts[step + 1] - starts[step]
    start = taken(counters[step:]) * part
    while start < count:
        for k in range(start, min(start + part, count)):
            every, both = gates[begin + k], gates[begin + k, : 2 * width]
            put(every, inputs[rows[begin + k]])
            add(every, bias)
            if step > 0 or has_state:
                add(both, products[k])
            activate(both, acts[0])
            put_product(reset[begin + k], both[width:], states[k])
        start = taken(counters[step:]) * part


@compiled
def mixed(out: Any, update: Any, one: Any, other: Any) -> None:
    """one + update * (other - one) of rows."""
    for j in range(len(out)):
        out[j] = one[j] + update[j] * (other[j] - one[j])


@for_team
def state_step(order: Any, given: Any, states: Any, made: Any, acts: Any, step: Any) -> None:
    """The new states of a step, from `gates_step` on.

    given: products of the states times reset, and whether there are states before the first step.
    states: overwritten. made: gates by places, states by places and by rows.
    """
    counters, starts, rows, part = order
    products, has_state = given
    gates, batch, hidden = made
    _, act, origin = acts
    width = states.shape[1]
    begin, count = starts[step], starts[step + 1] - starts[step]
    start = taken(counters[step:]) * part
    while start < count:
        for k in range(start, min(start + part, count)):
            place, state = begin + k, states[k]
            update, candidate = gates[place, :width], gates[place, 2 * width :]
            if step > 0 or has_state:
                add(candidate, products[k])
            activate(candidate, act)
            if origin:
                mixed(batch[place], update, candidate, state)
            else:
                mixed(batch[place], update, state, candidate)
            put(state, batch[place])
            put(hidden[rows[place]], state)
        start = taken(counters[step:]) * part


@compiled
def parted(d_candidate: Any, kept: Any, grad: Any, update: Any, origin: Any) -> None:
    """What of a state's gradient is the candidate's, and what the state's before."""
    for j in range(len(grad)):
        share = grad[j] * update[j]
        d_candidate[j] = grad[j] - share if origin else share
        kept[j] = share if origin else grad[j] - share


@compiled
def put_turned(d_update: Any, grad: Any, one: Any, other: Any) -> None:
    """grad * (other - one) of rows."""
    for j in range(len(grad)):
        d_update[j] = grad[j] * (other[j] - one[j])


@for_team
def state_step_back(
    order: Any, grads: Any, made: Any, initial: Any, out: Any, acts: Any, step: Any
) -> None:
    """Back through `state_step`: the gradients of update and candidate before activation.

    grads: that of Hidden by rows; what the step behind adds by its product, and besides, both 0 for
    sequences that end here, the latter overwritten by what this one keeps. made: by places gates
    and states. initial: the state of each sequence. out: by rows gradients of Input, of which
    reset's is to come, and the states before; and of this step those of update and reset, and of
    the candidate.
    """
    counters, starts, rows, part = order
    d_hidden, later, kept = grads
    gates, batch = made
    d_inputs, before, d_both, d_candidates = out
    gate, act, origin = acts
    width = kept.shape[1]
    begin, count = starts[step], starts[step + 1] - starts[step]
    start = taken(counters[step:]) * part
    while start < count:
        for k in range(start, min(start + part, count)):
            place, row = begin + k, rows[begin + k]
            state, grad = initial[k], before[row]
            if step > 0:
                state = batch[starts[step - 1] + k]
            update, candidate = gates[place, :width], gates[place, 2 * width :]
            put(grad, d_hidden[row])
            add(grad, kept[k])
            add(grad, later[k])
            d_update, d_candidate = d_both[k, :width], d_candidates[k]
            if origin:
                put_turned(d_update, grad, candidate, state)
            else:
                put_turned(d_update, grad, state, candidate)
            bend(d_update, update, gate)
            parted(d_candidate, kept[k], grad, update, origin)
            bend(d_candidate, candidate, act)
            put(d_inputs[row, 2 * width :], d_candidate)
            put(grad, state)
        start = taken(counters[step:]) * part


@for_team
def gates_step_back(
    order: Any, d_resets: Any, kept: Any, made: Any, out: Any, acts: Any, step: Any
) -> None:
    """Back through `gates_step`, after `state_step_back`.

    d_resets: of the states times reset. kept: what the states before get, added to.
    made: by places gates and the states times reset. out: by rows the gradients of Input, the
    states before, and these times reset; and of this step those of update and reset.
    """
    counters, starts, rows, part = order
    gates, reset = made
    d_inputs, before, reset_rows, d_both = out
    width = kept.shape[1]
    begin, count = starts[step], starts[step + 1] - starts[step]
    start = taken(counters[step:]) * part
    while start < count:
        for k in range(start, min(start + part, count)):
            place, row = begin + k, rows[begin + k]
            factor, d_reset = gates[place, width : 2 * width], d_both[k, width:]
            put_product(d_reset, d_resets[k], before[row])
            bend(d_reset, factor, acts[0])
            add_product(kept[k], d_resets[k], factor)
            put(d_inputs[row, : 2 * width], d_both[k])
            put(reset_rows[row], reset[place])
        start = taken(counters[step:]) * part


@compiled
def gru_steps_at_once(
    orders: Any, given: Any, bias: Any, states: Any, made: Any, acts: Any, weights: Any
) -> None:
    """All steps forward, by one thread.

    orders: for each of a step's two loops. given: Input by rows, room for its products of the
    states before and of these times reset, and whether there are states before the first step.
    made: by places gates, states times reset and states, and the latter by rows. weights: of gates
    and candidate.
    """
    order, other = orders
    inputs, both, candidates, has_state = given
    gates, reset, batch, hidden = made
    of_gates, of_candidate = weights
    _, starts, _, _ = order
    for step in range(len(starts) - 1):
        begin, end = starts[step], starts[step + 1]
        count, continues = end - begin, step > 0 or has_state
        if continues:
            multiply(both[:count], states[:count], of_gates)
        gates_step(order, (inputs, both, has_state), bias, states, (gates, reset), acts, step)
        if continues:
            multiply(candidates[:count], reset[begin:end], of_candidate)
        rest = gates, batch, hidden
        state_step(other, (candidates, has_state), states, rest, acts, step)


@compiled
def gru_steps_back_at_once(
    orders: Any, grads: Any, made: Any, initial: Any, out: Any, acts: Any, turned: Any
) -> None:
    """All steps back, by one thread.

    grads: as `state_step_back` has them, and room for those of states times reset. made: by places
    gates, states times reset, and states. out: as both loops have it, of the second the states
    times reset by rows. turned: the transposed weights of candidate and gates.
    """
    order, other = orders
    d_hidden, later, kept, d_resets = grads
    gates, reset, batch = made
    d_inputs, before, reset_rows, d_both, d_candidates = out
    of_candidate, of_gates = turned
    _, starts, _, _ = order
    for step in range(len(starts) - 2, -1, -1):
        count = starts[step + 1] - starts[step]
        own, rest = (d_hidden, later, kept), (d_inputs, before, d_both, d_candidates)
        state_step_back(order, own, (gates, batch), initial, rest, acts, step)
        multiply(d_resets[:count], d_candidates[:count], of_candidate)
        written = d_inputs, before, reset_rows, d_both
        gates_step_back(other, d_resets, kept, (gates, reset), written, acts, step)
        multiply(later[:count], d_both[:count], of_gates)
