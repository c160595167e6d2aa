"""The loop of `crf.best_paths`: the best way to each tag of each row, and back along the best."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.kernels.compiled import compiled
from refluid.kernels.labelling.writing import best_lines
from refluid.kernels.panels.laying import counters_at, floats_at
from refluid.kernels.teams import by_caller, for_team, taken
from refluid.kernels.vectors import added, endless, highest, multiplied


@compiled
def beats(one: Any, other: Any) -> Any:
    """Whether a score is better; what is no number is, as in torch."""
    return one > other or (one != one and other == other)


@compiled
def carefully(scores: Any, before: Any, between: Any, at: Any, tags: Any) -> None:
    """What `best_lines` does, of any scores."""
    for j in range(tags):
        found = scores[before] + between[j]
        for k in range(1, tags):
            way = scores[before + k] + between[k * tags + j]
            found = way if beats(way, found) else found
        scores[at + j] = found


@compiled
def first_best(values: Any, first: Any, count: Any, odd: Any) -> Any:
    """The first place of the best ones; odd: some of them may be no numbers."""
    if not odd:
        most, place = highest(values, values, first, count, np.float32(0)), 0
        while values[first + place] != most:
            place += 1
        return place
    place = 0
    for j in range(1, count):
        if beats(values[first + j], values[first + place]):
            place = j
    return place


@for_team
def crf_paths(counter: Any, given: Any, layout: Any, made: Any, size: Any) -> None:
    """given: emissions, transitions, labels (0: none). made: scores of all rows, which are the
    loop's own, and the tags, or whether they are the labels, 0 in rows that fill sequences up.

    As the loops of `crf_loops.py`. Where a number may be NaN or become so, `carefully` goes on.
    """
    shared, starts, lengths = counters_at(counter), counters_at(layout[0]), counters_at(layout[1])
    x, weights, labels = floats_at(given[0]), floats_at(given[1]), counters_at(given[2])
    scores, path = floats_at(made[0]), counters_at(made[1])
    count, tags = size
    between, ends = weights[2 * tags :], weights[tags:]
    one, none = taken(shared), np.float32(0)
    odd_weights = one < count and endless(weights, weights, 0, (tags + 2) * tags, none) > none
    while one < count:
        begin, end = starts[one], starts[one + 1]
        last, odd = begin + max(0, lengths[one]) - 1, odd_weights
        for row in range(begin, last + 1):
            at = row * tags
            if row == begin:
                multiplied(weights, scores[at:], 0, tags, np.float32(1))
            elif odd:
                carefully(scores, at - tags, between, at, tags)
            else:
                source, matrix = made[0] + 4 * (at - tags), given[1] + 8 * tags
                best_lines((source, 1, tags, matrix, tags, made[0] + 4 * at))
            added(x, scores, at, tags, np.float32(1))
            odd = odd or endless(scores, scores, at, tags, none) > none
        for row in range(last + 1, end):
            path[row] = 0
        tag = 0
        for row in range(last, begin - 1, -1):
            # Scores are of no more use where the tag behind them is known.
            at, ways = row * tags, (row + 1) * tags
            if row == last:
                ways = at
                added(ends, scores[at:], 0, tags, np.float32(1))
            else:
                for k in range(tags):
                    scores[ways + k] = scores[at + k] + between[k * tags + tag]
            tag = first_best(scores, ways, tags, odd)
            path[row] = tag
            if given[2] != 0:
                path[row] = tag == labels[row]
        one = taken(shared)


few_paths = by_caller(crf_paths)
