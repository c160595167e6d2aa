"""Removes what a recorded step does twice, for nothing, or with the same result every time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor

from refluid.core import flags
from refluid.kernels.products import limits
from refluid.runtime.recorded.graph import (
    Kernel,
    Line,
    Part,
    Value,
    Versions,
    places,
    seen_by_kernels_alone,
)
from refluid.runtime.steps import Call
from refluid.runtime.trees import mapped

# Constants up to so many elements are computed once and kept.
_SMALL = 4096
# Matrix products, and how many numbers the result has of one that may be large.
_NAMES = """
    mm addmm _linear_pointwise
"""
_PRODUCTS, _LARGE = frozenset(_NAMES.split()), 2**13
# Kernels that give memory as it is.
UNWRITTEN = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})


def simplify(steps: list[Part]) -> list[Part]:
    """Constants computed once, equal calls merged, unread results dropped: bit for bit equal.

    Order stays. A result is merged with an earlier one only if nobody writes to the memory of
    either, and if no line of the plan, which might keep or change it, gets it.
    """
    steps = _without_repeats(_folded(_without_placeholders(steps)))
    return _read(steps)


def by_panels(steps: list[Part]) -> list[Part]:
    """The steps with refluid's own products where those are faster: equal but for rounding."""
    if not flags.value("refluid_panel_products") or limits.repeatable:
        return steps
    if not any(map(_may_be_large_product, steps)):
        return steps
    from refluid.runtime.recorded.paneling import paneled  # few programs have products so large

    return paneled(steps)


def _may_be_large_product(step: Part) -> bool:
    if not isinstance(step, Kernel) or step.name not in _PRODUCTS or step.outs[0] is None:
        return False
    layout = step.outs[0].layout
    return layout is not None and layout.shape.numel() >= _LARGE


def _without_placeholders(steps: list[Part]) -> list[Part]:
    """Without stand-ins for values whose shape is known: memory is freed after the last use."""
    used = {value for step in steps for value in step.uses}
    return [step for step in steps if not _is_placeholder(step) or not used.isdisjoint(step.outs)]


def _is_placeholder(step: Part) -> bool:
    if not isinstance(step, Line):
        return False
    return isinstance(step.step, Call) and step.step.function == "placeholder"


class _Writes:
    """Which memory is written, or handed to code that may write it, and when."""

    def __init__(self, steps: list[Part]) -> None:
        self.count: Counter[int] = Counter()
        self.exposed: set[int] = set()
        for step in steps:
            if isinstance(step, Kernel):
                self.count.update(step.writes)
            else:
                given = [*step.loads.values(), *step.stores.values()]
                self.exposed.update(v.storage for v in given if v.storage is not None)

    def private(self, value: Value | None) -> bool:
        """Whether the memory of a value is never written after a kernel made it, nor seen."""
        return value is None or not (
            self.count[value.storage or 0] or value.storage in self.exposed
        )


def _is_pure(kernel: Kernel) -> bool:
    if kernel.writes or kernel.draws:
        return False
    return kernel.name not in UNWRITTEN


def _folded(steps: list[Part]) -> list[Part]:
    writes = _Writes(steps)
    kept: list[Part] = []
    for step in steps:
        if not (isinstance(step, Kernel) and _is_constant(step, writes) and _fold(step)):
            kept.append(step)
    return kept


def _is_constant(kernel: Kernel, writes: _Writes) -> bool:
    known = all(isinstance(value.constant, Tensor) for value in kernel.uses)
    fixed = known and _is_pure(kernel) and not kernel.is_sized
    return fixed and all(map(writes.private, kernel.outs))


def _fold(kernel: Kernel) -> bool:
    args, kwargs = mapped(
        (kernel.args, kernel.kwargs),
        lambda leaf: leaf.constant if isinstance(leaf, Value) else leaf,
    )
    with torch.no_grad():
        made = kernel.func(*args, **kwargs)
    results = made if isinstance(made, list | tuple) else [made]
    if any(one.numel() > _SMALL for one in results if isinstance(one, Tensor)):
        return False
    for value, result in zip(kernel.outs, results, strict=True):
        if value is not None:
            value.constant = result
    return True


def _without_repeats(steps: list[Part]) -> list[Part]:
    writes = _Writes(steps)
    versions = Versions()
    known: dict[Any, Kernel] = {}
    same: dict[Value, Value] = {}
    made: set[Value] = set()
    kept: list[Part] = []

    for step in steps:
        if isinstance(step, Line):
            step.loads = {name: same.get(value, value) for name, value in step.loads.items()}
            versions.note(step)
            made.update(step.stores.values())
            kept.append(step)
            continue
        step.take(same)
        versions.note(step)
        if _is_pure(step):
            outs = [out for out in step.outs if out is not None]
            if outs and all(out in made or out.constant is not None for out in outs):
                continue  # views of known memory, and aliases
            key = _key(step, versions)
            earlier = known.get(key)
            if earlier is not None and all(map(writes.private, step.outs + earlier.outs)):
                pairs = zip(step.outs, earlier.outs, strict=True)
                same.update({a: b for a, b in pairs if a is not None and b is not None})
                continue
            known[key] = step
        made.update(out for out in step.outs if out is not None)
        kept.append(step)
    return kept


def _key(kernel: Kernel, versions: Versions) -> Any:
    def frozen(tree: Any) -> Any:
        kind = type(tree)
        if kind is Value:
            return tree, versions.of(tree)
        if isinstance(tree, list | tuple):
            return tuple([frozen(one) for one in tree])
        if kind is dict:
            return tuple([(key, frozen(one)) for key, one in tree.items()])
        return kind, repr(tree)

    return kernel.func, frozen(kernel.args), frozen(kernel.kwargs)


def _read(steps: list[Part]) -> list[Part]:
    """Without kernels whose results, and what they write over, nobody reads."""
    own = seen_by_kernels_alone(steps)
    needed, read = set[Value](), set[int]()
    kept: list[Part] = []
    for step in reversed(steps):
        idle = isinstance(step, Kernel) and not step.draws and step.writes <= own - read
        if idle and needed.isdisjoint(step.outs):
            continue
        needed.update(step.uses)
        read |= places(step.uses)
        kept.append(step)
    return kept[::-1]
