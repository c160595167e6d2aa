"""Rows of tables, on plain tensors: looked up, updated, put in order, added up.

A table is [height, width]; `rows` are the numbers of n of them, int64 [n], in any order and more
than once; `value` is [n, width], a row for each number. What the compiled loops don't take (other
types than float32 and float64, other layouts and devices) is left to torch, or the caller is told.
Nothing of operators or gradients is known here: a server of tables calls these too.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType


@cache
def loops() -> ModuleType:
    """The compiled loops; imported late, for few programs need them."""
    from refluid.kernels.rows import compiled_loops

    return compiled_loops
