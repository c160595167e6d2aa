"""Products of few rows by a transposed matrix take a copy of it in the order that MKL has.

MKL brings the second factor of a product into that order each time, which takes as long as the
product itself where the first one has few rows. The gradients of a loop over time steps are such
products, each by the same matrix: one copy serves all of them, and is freed after the last one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from refluid.kernels.packed import LEAST, ROWS, USES, linear, order
from refluid.runtime.recorded.graph import Kernel, Part, Value, Versions

_NAMES = """
    t transpose permute
"""
_TRANSPOSING = frozenset(_NAMES.split())


@dataclass(frozen=True)
class _Shared:
    """What products have in common that take one copy: its rows are those of the first factor."""

    transpose: Value
    version: tuple[int, int]
    rows: int


def packed(steps: Sequence[Part]) -> list[Part]:
    """The steps, with one such copy for products that take the transpose of an unchanged matrix.

    Their numbers may differ from the former ones by rounding.
    """
    if linear is None or order is None:
        return list(steps)
    groups: defaultdict[_Shared, list[int]] = defaultdict(list)
    for place, shared in _products(steps):
        groups[shared].append(place)
    changed: dict[int, list[Part]] = {}
    made_by = {value: one for one in steps if isinstance(one, Kernel) for value in one.outs}
    for number, (shared, found) in enumerate(groups.items()):
        matrix = _matrix(shared.transpose, made_by)
        if matrix is None or len(found) < USES:
            continue
        copy = Value(f"p{number}", -1 - number)  # memory of its own
        for place in found:
            product: Any = steps[place]
            given = (product.args[0], copy, matrix, None, shared.rows)
            changed[place] = [Kernel(linear, given, {}, product.outs, frozenset(), product.op)]
        ordering = Kernel(order, (matrix, shared.rows), {}, [copy], frozenset(), product.op)
        changed[found[0]].insert(0, ordering)
    return [one for place, step in enumerate(steps) for one in changed.get(place, (step,))]


def _products(steps: Sequence[Part]) -> Iterator[tuple[int, _Shared]]:
    """The products that might take a copy, and where they stand."""
    versions = Versions()
    for place, step in enumerate(steps):
        versions.note(step)
        if not isinstance(step, Kernel) or step.func is not torch.ops.aten.mm.default:
            continue
        rows, transpose = step.args
        count = rows.layout.shape[0]
        if 0 < count <= ROWS:
            yield place, _Shared(transpose, versions.of(transpose), count)


def _matrix(transpose: Value, made_by: dict[Value | None, Kernel]) -> Value | None:
    """What a kernel made the transpose of, if it has enough numbers, on the CPU, row by row."""
    maker = made_by.get(transpose)
    if maker is None or maker.name not in _TRANSPOSING:
        return None
    matrix, across = maker.uses[0], transpose.layout
    layout = matrix.layout
    if layout is None or across is None or layout.shape.numel() < LEAST:
        return None
    if layout.dtype is not torch.float32 or layout.device.type != "cpu":
        return None
    lies = layout.stride == (layout.shape[-1], 1) == across.stride[::-1]
    return matrix if lies and layout.shape == across.shape[::-1] else None
