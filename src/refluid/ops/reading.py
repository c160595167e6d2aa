"""Integers that a program keeps in tensors: sizes, axes, counts.

While shapes are being inferred such tensors have no values. What is read then is a probe size,
so that whatever depends on it turns out as unknown (-1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from torch import Tensor


@dataclass
class Probe:
    """The size that stands for unknown ones, and whether anybody asked for it."""

    size: int
    used: bool = False


_probe: ContextVar[Probe] = ContextVar("probe")


@contextmanager
def probing(size: int) -> Iterator[Probe]:
    """Inside, integers read from tensors without values are `size`."""
    probe = Probe(size)
    token = _probe.set(probe)
    try:
        yield probe
    finally:
        _probe.reset(token)


def unknown() -> int:
    """The size that stands for one that depends on values. Only while shapes are inferred."""
    probe = _probe.get()
    probe.used = True
    return probe.size


def is_unknown(size: int) -> bool:
    """Whether a size of a tensor without values stands for an unknown one."""
    probe = _probe.get(None)
    return probe is not None and size == probe.size


def integer(tensor: Tensor) -> int:
    """The value of a tensor of one element."""
    return unknown() if tensor.is_meta else int(tensor.item())


def integers(
    given: Sequence[int], tensor: Tensor | None = None, several: Sequence[Tensor] | None = None
) -> list[int]:
    """Integers given as attribute, or by `tensor`, or by `several` tensors of one element.

    Where these have no values yet, `given` says which integers are known: those that aren't -1.
    """
    if several:
        if several[0].is_meta and len(given) == len(several):
            return [unknown() if one == -1 else one for one in given]
        return [integer(one) for one in several]
    if tensor is None:
        return list(given)
    if tensor.is_meta:
        count = tensor.numel()
        known = given if len(given) == count else [-1] * count
        return [unknown() if one == -1 else one for one in known]
    values: list[int] = tensor.flatten().tolist()
    return values
