"""One step of beam search, as compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.kernels.compiled import compiled

_NEVER = -np.inf


@compiled
def by_prefix(values: Any, parents: Any, words: Any, first: Any, end: Any) -> Any:
    """Puts a beam in the order of its prefixes; those of one stay as they are."""
    for place in range(first + 1, end):
        value, parent, word = values[place], parents[place], words[place]
        while place > first and parents[place - 1] > parent:
            values[place], parents[place] = values[place - 1], parents[place - 1]
            words[place] = words[place - 1]
            place -= 1
        values[place], parents[place], words[place] = value, parent, word


@compiled
def keep(
    values: Any,
    parents: Any,
    words: Any,
    first: Any,
    made: Any,
    count: Any,
    score: Any,
    row: Any,
    word: Any,
) -> Any:
    """Puts a candidate where it belongs in the beam from `first` to `made`, best first; its end."""
    place = made
    if made == first + count:
        place -= 1
        if score < values[place] or (score == values[place] and row < parents[place]):
            return made
    end = place + 1
    while place > first and (
        values[place - 1] < score or (values[place - 1] == score and parents[place - 1] < row)
    ):
        values[place], parents[place] = values[place - 1], parents[place - 1]
        words[place] = words[place - 1]
        place -= 1
    values[place], parents[place], words[place] = score, row, word
    return end


@compiled
def choose_beams(
    last: Any,
    before: Any,
    ids: Any,
    scores: Any,
    sources: Any,
    end_id: Any,
    count: Any,
    values: Any,
    parents: Any,
    words: Any,
    bounds: Any,
) -> Any:
    """The best continuations of each source sentence's prefixes; how many there are.

    last, before [prefixes]: the prefixes' last words and scores. ids [prefixes, candidates], or no
    rows for the columns; scores likewise. sources: where the prefixes of each sentence begin and
    end. Filled: values, parents, words, [count * sentences], and bounds, [prefixes + 1], which
    says where the continuations of each prefix begin and end.

    Of equal scores those of later prefixes come first, then those seen first; but one that equals
    the last of a full beam takes its place, as `paddle` 2.6.2 was seen to choose.
    """
    made, named = 0, len(ids) > 0
    bounds[0] = 0
    for source in range(len(sources) - 1):
        first, lives = made, False
        for row in range(sources[source], sources[source + 1]):
            if last[row] == end_id:
                if before[row] != _NEVER:
                    made = keep(
                        values, parents, words, first, made, count, before[row], row, end_id
                    )
                continue
            for column in range(scores.shape[1]):
                score = scores[row, column]
                if score != _NEVER:
                    word = ids[row, column] if named else column
                    made = keep(values, parents, words, first, made, count, score, row, word)
        for place in range(first, made):
            lives |= last[parents[place]] != end_id
        if not lives:  # nothing of the sentence goes on
            made = first
        by_prefix(values, parents, words, first, made)
        place = first
        for row in range(sources[source], sources[source + 1]):
            while place < made and parents[place] == row:
                place += 1
            bounds[row + 1] = place
    return made
