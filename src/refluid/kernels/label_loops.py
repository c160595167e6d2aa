"""The loops of `at_labels.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.kernels.teams import for_team, taken


@for_team
def take_at(
    counter: Any, x: Any, label: Any, ignored: Any, found: Any, signs: Any, bad: Any, part: Any
) -> None:
    """found[row] = x[row, label[row]], signs[row] = -1; `part` rows at a time.

    Where a label is ignored they are x[row, 0] and 0; bad[0] tells whether another is no column.
    """
    count, width = len(x), np.uint64(x.shape[1])
    begin = taken(counter) * part
    while begin < count:
        end = min(begin + part, count)
        rows, labels = x[begin:end], label[begin:end]
        took, signed = found[begin:end], signs[begin:end]
        for row in range(end - begin):
            counts = labels[row] != ignored
            at = np.uint64(labels[row] if counts else 0)
            if at >= width:
                bad[0], at = 1, np.uint64(0)
            took[row] = rows[row, at]
            signed[row] = -np.float32(counts)
        begin = taken(counter) * part


@for_team
def put_at(
    counter: Any, value: Any, label: Any, ignored: Any, out: Any, bad: Any, part: Any
) -> None:
    """Rows of zeros in out, but value[row] at label[row] unless that is ignored, as in `take_at`.

    The zeros of a part are written at once, and are still in the cache when values come to them.
    """
    count, width = out.shape
    begin = taken(counter) * part
    while begin < count:
        end = min(begin + part, count)
        rows, labels, values = out[begin:end], label[begin:end], value[begin:end]
        rows[:] = np.float32(0)
        for row in range(end - begin):
            at = labels[row]
            if at != ignored:
                if at < 0 or at >= width:
                    bad[0] = 1
                else:
                    rows[row, at] = values[row]
        begin = taken(counter) * part
