"""The loop of `epilogues.softmax_with_top`."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.kernels.teams import for_team, taken
from refluid.kernels.vectors import exponentials, highest, multiplied


@for_team
def softmax_rows(counter: Any, x: Any, out: Any, top: Any, rest: Any, part: Any) -> None:
    """Softmax of the rows of x [n, width], `part` of them at a time; top and rest: [n]."""
    count, width = x.shape
    begin = taken(counter) * part
    while begin < count:
        for row in range(begin, min(begin + part, count)):
            most = highest(x, x, row * width, width, np.float32(0))
            total = exponentials(x, out, row * width, width, most)
            multiplied(out, out, row * width, width, np.float32(1) / total)
            top[row] = most
            rest[row] = -np.log(total)
        begin = taken(counter) * part
