"""The steps of recurrent units, as their loops go through them."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

# So many numbers of a state are a part of a step, which one thread takes.
_PART = 2**11
# Up to so many multiplications of a step one thread computes all steps in one call.
_AT_ONCE = 2**18


class StepOrder(NamedTuple):
    """How loops find the sequences of a step.

    counters: [steps + 1], by which the threads of each step count its parts (`teams.taken`), 0
    before, the last one unused. starts: [steps + 1], the first place of each step, and how many
    places there are. rows: the row of each place. part: how many sequences a thread takes at a
    time.
    """

    counters: Tensor
    starts: Tensor
    rows: Tensor
    part: int


def ordered(starts: Tensor, rows: Tensor, width: int) -> StepOrder:
    """For one loop over the steps of a unit whose state has so many numbers."""
    return StepOrder(torch.zeros_like(starts), starts, rows, max(1, _PART // width))


def sizes_of(starts: Tensor) -> list[int]:
    """How many sequences each step has."""
    bounds = starts.tolist()  # `diff` takes several operators
    return [end - begin for begin, end in pairwise(bounds)]


def begun(initial: Tensor | None, count: int, like: Tensor, width: int) -> Tensor:
    """A state of the first sequences that may be written over; zero where there is none."""
    return like.new_zeros(count, width) if initial is None else initial[:count].clone()


def require_sizes(**given: tuple[Tensor | None, tuple[int, ...]]) -> None:
    """RuntimeError where a tensor isn't of the sizes that a loop takes it for."""
    for name, (one, sizes) in given.items():
        if one is not None and one.shape != sizes:
            raise RuntimeError(f"{name} of a recurrent unit is {[*one.shape]}, not {[*sizes]}")


def are_at_once(count: int, *weights: Tensor) -> bool:
    """Whether steps of so many sequences are so small that calls are what takes time."""
    return count * sum(weight.numel() for weight in weights) <= _AT_ONCE
