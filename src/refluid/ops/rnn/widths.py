"""Widths that belong together in recurrent operators; torch's kernels have words of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator


def require_widths(gates: int, peepholes: bool = False, **given: Tensor | None) -> None:
    """EnforceNotMet where tensors of an operator with so many gates don't belong together.

    given: Input (rows, gates * width) and Weight (width, gates * width); ProjWeight (width, size),
    where Weight has `size` rows; Bias (1, gates * width), and 3 * width more with peepholes.
    """
    known = {name: one for name, one in given.items() if one is not None}
    if known["Input"].is_meta:
        return
    for wrong in _wrong({name: one.shape for name, one in known.items()}, gates, peepholes):
        raise EnforceNotMet(wrong)


def require_declared_widths(op: Operator, gates: int, peepholes: bool = False) -> None:
    """`require_widths` as far as the shapes of an operator's variables are known before it runs."""
    shapes = {}
    for slot in ("Input", "Weight", "ProjWeight", "Bias"):
        for name in op.input(slot):
            var = op.block.var_recursive(name)
            shapes[slot] = var.shape if var.has_description() else ()
    for wrong in _wrong(shapes, gates, peepholes):
        raise EnforceNotMet(wrong)


def _wrong(shapes: Mapping[str, Sequence[int]], gates: int, peepholes: bool) -> Iterator[str]:
    """What doesn't fit, in words; sizes below 0 aren't known yet."""
    weight, projecting = shapes["Weight"], shapes.get("ProjWeight", ())
    if len(weight) != 2 or min(weight) < 0:
        return
    wide = weight[1]
    width, rest = divmod(wide, gates)
    size = projecting[1] if len(projecting) == 2 else width
    if rest or 0 <= size != weight[0]:
        yield (
            f"Weight has shape {list(weight)}, but a matrix for {gates} gates has {gates} times as "
            f"many columns as {'ProjWeight has rows' if projecting else 'it has rows'}"
        )
    if len(projecting) == 2 and 0 <= projecting[0] != width:
        yield f"ProjWeight has shape {list(projecting)}, but Weight is for {width} units"
    if (given := shapes["Input"]) and 0 <= given[-1] != wide:
        yield (
            f"Input has shape {list(given)}, but Weight {list(weight)} is for {width} units with "
            f"{gates} gates: Input needs {wide} columns, those of a fully connected layer "
            f"before (size={wide})"
        )
    if bias := shapes.get("Bias", ()):
        wanted = wide + 3 * width * peepholes
        if min(bias) >= 0 and wanted != math.prod(bias):
            more = f", and {3 * width} more for peepholes" if peepholes else ""
            yield f"Bias has shape {list(bias)}, but {wide} numbers are needed{more}"
