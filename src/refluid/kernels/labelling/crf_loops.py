"""The loops of `crf.py`: sequence by sequence, a row after the other.

All is float32 by addresses, labels and places are int64. `starts` are the first rows of sequences,
and last how many rows there are; `lengths` how many of its rows are a sequence's, others are there
to fill it up. `size`: how many sequences and tags. `counters`: how many parts are taken, then 1 and
the label where one is no tag, and how many parts of transitions are taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.kernels.compiled import compiled
from refluid.kernels.labelling.writing import add_four, add_lines, sum_lines
from refluid.kernels.panels.laying import counters_at, floats_at
from refluid.kernels.teams import by_caller, for_team, taken
from refluid.kernels.vectors import divided, exponentials, highest, multiplied, pairs, weighed

# Rows that are added up by themselves, since long sums lose digits; lines that a thread takes.
_ROWS, _LINES = 64, 8


@compiled
def fill(values: Any, first: Any, count: Any) -> None:
    """Zeros."""
    for j in range(first, first + count):
        values[j] = np.float32(0)


@compiled
def is_tag(label: Any, tags: Any, counters: Any) -> Any:
    """Whether a label is one; else it is noted."""
    if 0 <= label < tags:
        return True
    counters[1], counters[2] = 1, label
    return False


@for_team
def crf_likelihoods(counters: Any, given: Any, layout: Any, made: Any, size: Any) -> None:
    """given: emissions, transitions, their exponentials, labels. made: alpha, exponentials of the
    emissions, -log of the probability of each sequence."""
    shared, starts, lengths = counters_at(counters), counters_at(layout[0]), counters_at(layout[1])
    x, transitions, weights = floats_at(given[0]), floats_at(given[1]), floats_at(given[2])
    labels, costs = counters_at(given[3]), floats_at(made[2])
    alpha, exps = floats_at(made[0]), floats_at(made[1])
    count, tags = size
    one = taken(shared)
    while one < count:
        begin, end = starts[one], starts[one + 1]
        last, before, gained = begin + max(0, lengths[one]) - 1, -1, 0.0
        for row in range(begin, end):
            at = row * tags
            most = highest(x, x, at, tags, np.float32(0))
            exponentials(x, exps, at, tags, most)
            if row > last:
                fill(alpha, at, tags)
                continue
            if row == begin:
                multiplied(weights, alpha[at:], 0, tags, np.float32(1))
            else:
                states, out = made[0] + 4 * (at - tags), made[0] + 4 * at
                sum_lines((states, 1, tags, given[2] + 8 * tags, tags, out))
            total = weighed(exps, alpha, at, tags, np.float32(0))
            divided(alpha, alpha, at, tags, total)
            label = labels[row]
            if is_tag(label, tags, shared):
                moved = transitions[(2 + before) * tags + label if row > begin else label]
                gained += np.float64(x[at + label]) - most - np.log(np.float64(total)) + moved
                before = label
        if last >= begin:
            ends = pairs(alpha[last * tags :], weights[tags:], 0, tags, np.float32(0))
            gained += np.float64(transitions[tags + before]) - np.log(np.float64(ends))
        costs[one] = 0.0 - gained
        one = taken(shared)


@compiled
def turn(square: Any, out: Any, side: Any) -> None:
    """Transposes."""
    for row in range(side):
        for column in range(side):
            out[column * side + row] = square[row * side + column]


@compiled
def rows_back(counters: Any, given: Any, layout: Any, made: Any, size: Any) -> None:
    """Gradients of emissions, and flows.

    beta, which is scaled so that alpha · beta is 1, lies where flows will.
    """
    shared, starts, lengths = counters_at(counters), counters_at(layout[0]), counters_at(layout[1])
    alpha, exps, weights = floats_at(given[0]), floats_at(given[1]), floats_at(given[2])
    labels, grads = counters_at(given[4]), floats_at(given[5])
    out, flows = floats_at(made[0]), floats_at(made[1])
    count, tags = size
    zero = np.float32(0)
    one = taken(shared)
    while one < count:
        begin, end, grad = starts[one], starts[one + 1], grads[one]
        last = begin + max(0, lengths[one]) - 1
        for values in (out, flows):
            fill(values, (last + 1) * tags, (end - last - 1) * tags)
        if last >= begin:
            total = pairs(alpha[last * tags :], weights[tags:], 0, tags, zero)
            divided(weights[tags:], flows[last * tags :], 0, tags, total)
        for row in range(last, begin - 1, -1):
            at = row * tags
            multiplied(flows, out, at, tags, grad)
            weighed(alpha, out, at, tags, zero)
            if is_tag(labels[row], tags, shared):
                out[at + labels[row]] -= grad
            if row == begin:
                fill(flows, at, tags)
                continue
            weighed(exps, flows, at, tags, zero)
            source, back = made[1] + 4 * at, made[1] + 4 * (at - tags)
            sum_lines((source, 1, tags, given[3], tags, back))
            total = pairs(alpha, flows, at - tags, tags, zero)
            divided(flows, flows, at - tags, tags, total)
            multiplied(flows, flows, at, tags, grad / total)
        one = taken(shared)


@compiled
def add_moves(row: Any, lines: Any, first: Any, end: Any, given: Any, made: Any, tags: Any) -> None:
    """Adds what flows back to `lines` rows from the tags from `first` to `end` before them."""
    tag, flows = first, made[1] + 4 * row * tags
    while tag < end:
        source, into = given[0] + 4 * ((row - 1) * tags + tag), made[2] + 4 * (2 + tag) * tags
        if tag + 4 <= end:
            add_four((source, tags, lines, flows, tags, into))
            tag += 4
        else:
            add_lines((source, tags, lines, flows, tags, into))
            tag += 1


@compiled
def take_seen(first: Any, end: Any, given: Any, layout: Any, out: Any, size: Any) -> None:
    """Takes away the transitions that labels have, of the tags from `first` to `end`."""
    starts, lengths = counters_at(layout[0]), counters_at(layout[1])
    labels, grads = counters_at(given[4]), floats_at(given[5])
    count, tags = size
    for one in range(count):
        for row in range(starts[one] + 1, starts[one] + lengths[one]):
            if first <= labels[row - 1] < end and 0 <= labels[row] < tags:
                out[(2 + labels[row - 1]) * tags + labels[row]] -= grads[one]


@compiled
def add_ends(rows: Any, layout: Any, out: Any, size: Any) -> None:
    """Adds the first rows of sequences to the first line, their last ones to the second."""
    starts, lengths = counters_at(layout[0]), counters_at(layout[1])
    count, tags = size
    for one in range(count):
        if lengths[one] > 0:
            first, last = starts[one] * tags, (starts[one] + lengths[one] - 1) * tags
            for j in range(tags):
                out[j] += rows[first + j]
                out[tags + j] += rows[last + j]


@compiled
def weights_back(counters: Any, given: Any, layout: Any, made: Any, size: Any) -> None:
    """Gradients of transitions, once those of emissions and flows are there."""
    shared, starts = counters_at(counters), counters_at(layout[0])
    weights, out = floats_at(given[2]), floats_at(made[2])
    count, tags = size
    rows = starts[count]
    first = taken(shared[3:]) * _LINES
    while first < tags:
        end = min(tags, first + _LINES)
        if first == 0:
            fill(out, 0, 2 * tags)
            add_ends(floats_at(made[0]), layout, out, size)
        fill(out, (2 + first) * tags, (end - first) * tags)
        for row in range(1, rows, _ROWS):
            add_moves(row, min(_ROWS, rows - row), first, end, given, made, tags)
        for j in range((2 + first) * tags, (2 + end) * tags):
            out[j] *= weights[j]
        take_seen(first, end, given, layout, out, size)
        first = taken(shared[3:]) * _LINES


@for_team
def crf_slopes(
    counters: Any, given: Any, layout: Any, made: Any, size: Any, of_rows: Any, of_weights: Any
) -> None:
    """given: alpha, exponentials of the emissions, of the transitions, and of those between tags
    transposed; labels, gradients of the likelihoods. made: gradients of the emissions; `flows`,
    what comes back to each row from the one before it; gradients of the transitions.

    A team has those of rows made before; the caller alone has both made at once, and transposes.
    """
    if of_rows and of_weights:
        turn(floats_at(given[2])[2 * size[1] :], floats_at(given[3]), size[1])
    if of_rows:
        rows_back(counters, given, layout, made, size)
    if of_weights:
        weights_back(counters, given, layout, made, size)


few_likelihoods, few_slopes = by_caller(crf_likelihoods), by_caller(crf_slopes)
