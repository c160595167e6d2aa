"""The loops of `lstm.py`: what a step of an LSTM does besides its product.

Gates are columns (candidate, input, forget, output). Peepholes, [3, width], are those of the gates
input, forget and output; an LSTM without has no rows of them. The first of `acts` is of the gates,
the second of the cell, the third of the candidate, numbered as in `rows.py`.
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


@compiled
def cell_of(every: Any, before: Any, made: Any, peephole: Any, continues: Any, acts: Any) -> None:
    """A row of gates is activated; before: the cell, overwritten. made: cell, active, hidden."""
    gate, of_cell, candidate = acts
    cell, active, hidden = made
    width = len(before)
    a, i = every[:width], every[width : 2 * width]
    f, o = every[2 * width : 3 * width], every[3 * width :]
    if len(peephole) > 0 and continues:
        add_product(i, before, peephole[0])
        add_product(f, before, peephole[1])
    activate(a, candidate)
    activate(every[width : 3 * width], gate)
    put_product(cell, i, a)
    if continues:
        add_product(cell, f, before)
    if len(peephole) > 0:
        add_product(o, cell, peephole[2])
    activate(o, gate)
    put(before, cell)
    put(active, cell)
    activate(active, of_cell)
    put_product(hidden, o, active)


@for_team
def lstm_step(
    order: Any, given: Any, weights: Any, carried: Any, made: Any, acts: Any, step: Any
) -> None:
    """A step forward.

    order: what `steps.StepOrder` has. given: Input by rows, the products of the states before, and
    whether there are states and cells before the first step. weights: biases [4 * width] and
    peepholes. carried: state and cell of each sequence, overwritten. made: Hidden and Cell by
    rows, gates and activated cells by places.
    """
    counters, starts, rows, part = order
    inputs, products, has_state, has_cell = given
    bias, peephole = weights
    states, cells = carried
    hidden, cell, gates, active = made
    continues = step > 0 or has_cell
    begin, count = starts[step], starts[step + 1] - starts[step]
    start = taken(counters[step:]) * part
    while start < count:
        for k in range(start, min(start + part, count)):
            place, row = begin + k, rows[begin + k]
            every = gates[place]
            put(every, inputs[row])
            add(every, bias)
            if step > 0 or has_state:
                add(every, products[k])
            out = cell[row], active[place], hidden[row]
            cell_of(every, cells[k], out, peephole, continues, acts)
            put(states[k], hidden[row])
        start = taken(counters[step:]) * part


@compiled
def cell_back(grads: Any, made: Any, before: Any, peephole: Any, acts: Any) -> None:
    """The way back through `cell_of`.

    grads: of the gates, whose last columns hold that of hidden before, and of the cell, which
    becomes that of the one before. made: gates and active. before: the cell.
    """
    d_every, d_cell = grads
    every, active = made
    gate, of_cell, candidate = acts
    width = len(before)
    a, i = every[:width], every[width : 2 * width]
    f, o = every[2 * width : 3 * width], every[3 * width :]
    d_a, d_i = d_every[:width], d_every[width : 2 * width]
    d_f, d_o = d_every[2 * width : 3 * width], d_every[3 * width :]
    put_product(d_a, d_o, o)
    bend(d_a, active, of_cell)
    add(d_cell, d_a)
    put_product(d_o, d_o, active)
    bend(d_o, o, gate)
    if len(peephole) > 0:
        add_product(d_cell, d_o, peephole[2])
    put_product(d_a, d_cell, i)
    put_product(d_i, d_cell, a)
    put_product(d_f, d_cell, before)
    bend(d_a, a, candidate)
    bend(d_every[width : 3 * width], every[width : 3 * width], gate)
    put_product(d_cell, d_cell, f)
    if len(peephole) > 0:
        add_product(d_cell, d_i, peephole[0])
        add_product(d_cell, d_f, peephole[1])


@for_team
def lstm_step_back(
    order: Any, grads: Any, made: Any, initial: Any, out: Any, acts: Any, step: Any
) -> None:
    """A step back, from the gradient of Hidden to that of the gates before activation.

    order: what `steps.StepOrder` has. grads: that of Hidden by rows, what the step behind adds to
    it, 0 for sequences that end here, and that of the cell of each sequence, overwritten. made: as
    by `lstm_step`, and peepholes. initial: state and cell of each sequence. out: gradients of Input
    by rows, the same for this step, and the Hidden, and unless it has no rows the Cell, before each
    row.
    """
    counters, starts, rows, part = order
    d_hidden, later, d_cells = grads
    hidden, cell, gates, active, peephole = made
    first_state, first_cell = initial
    d_input, d_step, before_hidden, before_cell = out
    width = d_cells.shape[1]
    begin, count = starts[step], starts[step + 1] - starts[step]
    start = taken(counters[step:]) * part
    while start < count:
        for k in range(start, min(start + part, count)):
            place, row = begin + k, rows[begin + k]
            state, before = first_state[k], first_cell[k]
            if step > 0:
                earlier = rows[starts[step - 1] + k]
                state, before = hidden[earlier], cell[earlier]
            d_every = d_step[k]
            put(d_every[3 * width :], d_hidden[row])
            add(d_every[3 * width :], later[k])
            grads_of = d_every, d_cells[k]
            cell_back(grads_of, (gates[place], active[place]), before, peephole, acts)
            put(d_input[row], d_every)
            put(before_hidden[row], state)
            if len(before_cell) > 0:
                put(before_cell[row], before)
        start = taken(counters[step:]) * part


@compiled
def lstm_steps_at_once(
    order: Any, given: Any, weights: Any, carried: Any, made: Any, acts: Any, weight: Any
) -> None:
    """All steps forward, by one thread; weight: that of the products."""
    _, starts, _, _ = order
    _, products, has_state, _ = given
    states, _ = carried
    for step in range(len(starts) - 1):
        if step > 0 or has_state:
            count = starts[step + 1] - starts[step]
            multiply(products[:count], states[:count], weight)
        lstm_step(order, given, weights, carried, made, acts, step)


@compiled
def lstm_steps_back_at_once(
    order: Any, grads: Any, made: Any, initial: Any, out: Any, acts: Any, turned: Any
) -> None:
    """All steps back, by one thread; turned: the transposed weight of the products."""
    _, starts, _, _ = order
    _, later, _ = grads
    _, d_step, _, _ = out
    for step in range(len(starts) - 2, -1, -1):
        lstm_step_back(order, grads, made, initial, out, acts, step)
        count = starts[step + 1] - starts[step]
        multiply(later[:count], d_step[:count], turned)
