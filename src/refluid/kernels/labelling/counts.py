"""Chunks in tags, and samples by their scores, counted by compiled loops.

Loops are told addresses: looking at tensors would take as long as counting a few.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.kernels.compiled import compiled
from refluid.kernels.panels.laying import counters_at, doubles_at, floats_at

# Sums of so many pairs, and halves of them, are whole in float64.
_EXACT = 2.0**51


@compiled
def is_in(value: Any, some: Any, count: Any) -> Any:
    """Whether it is one of the first `count`."""
    found = False
    for j in range(count):
        found = found or some[j] == value
    return found


@compiled
def type_of(tag: Any, kinds: Any, types: Any) -> Any:
    """The chunk type of a tag, `types` outside of chunks."""
    return min(tag // kinds, types)


@compiled
def goes_on(before: Any, tag: Any, kinds: Any, types: Any, breaks: Any) -> Any:
    """Whether a tag goes on with the chunk of the one before. breaks: a bit for each kind that
    starts a chunk, and one for each that ends it.
    """
    own = type_of(tag, kinds, types)
    if own == types or own != type_of(before, kinds, types):
        return False
    opening, closing = breaks
    return ((opening >> (tag % kinds)) | (closing >> (before % kinds))) & 1 == 0


@compiled
def count_chunks(given: Any, layout: Any, made: Any, scheme: Any) -> None:
    """given: tags found, tags wanted, excluded types and how many. layout: where sequences begin
    (and the last one ends) or 0; how many rows they have or 0; how many there are and how many rows
    lie from one to the next. made: precision, recall, F1, and the three counts. scheme: kinds of
    tags, types, and `breaks`.
    """
    found, wanted, excluded = counters_at(given[0]), counters_at(given[1]), counters_at(given[2])
    starts, lengths, sequences, apart = layout
    kinds, types, breaks = scheme
    inferred, labelled, right = 0, 0, 0
    for one in range(sequences):
        if starts != 0:
            begin, end = counters_at(starts)[one], counters_at(starts)[one + 1]
        else:
            begin = one * apart
            end = begin + max(0, min(apart, counters_at(lengths)[one]))
        both = False  # whether one chunk of both reaches this row
        for row in range(begin, end + 1):
            inside = row < end
            on = inside and row > begin
            keeps = on and goes_on(found[row - 1], found[row], kinds, types, breaks)
            holds = on and goes_on(wanted[row - 1], wanted[row], kinds, types, breaks)
            right += both and not keeps and not holds
            both = both and keeps and holds
            if not inside:
                continue
            own, other = type_of(found[row], kinds, types), type_of(wanted[row], kinds, types)
            ours = own != types and not keeps and not is_in(own, excluded, given[3])
            theirs = other != types and not holds and not is_in(other, excluded, given[3])
            both = both or (ours and theirs and own == other)
            inferred, labelled = inferred + ours, labelled + theirs
    rates = floats_at(made[0]), floats_at(made[1]), floats_at(made[2])
    precision = np.float32(right) / np.float32(max(1, inferred))
    recall = np.float32(right) / np.float32(max(1, labelled))
    rates[0][0], rates[1][0], rates[2][0] = precision, recall, np.float32(0)
    if right > 0:
        rates[2][0] = np.float32(2) * precision * recall / (precision + recall)
    counts = counters_at(made[3]), counters_at(made[4]), counters_at(made[5])
    counts[0][0], counts[1][0], counts[2][0] = inferred, labelled, right


@compiled
def make_room(stat: Any, size: Any, steps: Any, last: Any) -> Any:
    """Takes the oldest batch out of a window of buckets; where the counts of this one begin."""
    if steps == 0:
        return 0
    own, total = (stat[last] % steps) * size, steps * size
    for bucket in range(size):
        stat[total + bucket] -= stat[own + bucket]
        stat[own + bucket] = 0
    stat[last] += 1
    return own


@compiled
def area_of(positive: Any, negative: Any, size: Any) -> Any:
    """The area under the curve by trapezoids, of whole numbers; -1 where these are too large."""
    wins, losses = 0, 0
    for bucket in range(size):
        wins += positive[bucket]
        losses += negative[bucket]
    whole = float(wins) * float(losses)
    if whole >= _EXACT:
        return -1.0
    twice, above = 0, wins
    for bucket in range(size):
        twice += negative[bucket] * (2 * above - positive[bucket])
        above -= positive[bucket]
    return twice / 2.0 / whole if whole > 0 else 0.0


@compiled
def count_scores(given: Any, stats: Any, area: Any, size: Any, steps: Any) -> Any:
    """Counts samples by scores and labels. Gives 1 where a score is out of range, and nothing is
    counted; 2 where the numbers are so large that the area wouldn't be exact, and isn't made.

    given: scores of all classes, of which the last counts, and labels. stats: the buckets of both
    classes, and how many numbers those are. area: where it goes. size: rows, classes, thresholds.
    """
    scores, labels = floats_at(given[0]), counters_at(given[1])
    rows, classes, thresholds = size
    scale, end = np.float32(thresholds), np.float32(thresholds + 1)
    for row in range(rows):
        scaled = scores[(row + 1) * classes - 1] * scale
        if not (scaled > np.float32(-1) and scaled < end):
            return 1
    positive, negative = counters_at(stats[0]), counters_at(stats[1])
    buckets, whole = thresholds + 1, steps * (thresholds + 1)
    won = make_room(positive, buckets, steps, stats[2] - 1)
    lost = make_room(negative, buckets, steps, stats[3] - 1)
    for row in range(rows):
        bucket = np.int64(scores[(row + 1) * classes - 1] * scale)
        if labels[row] != 0:
            positive[won + bucket] += 1
            positive[whole + bucket] += steps > 0
        else:
            negative[lost + bucket] += 1
            negative[whole + bucket] += steps > 0
    found = area_of(positive[whole:], negative[whole:], buckets)
    doubles_at(area)[0] = found
    return 0 if found >= 0 else 2
