"""What a group exchanges, computed from what all members bring: the oracle of the tests."""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch import Tensor

STEPS = {"sum": torch.add, "prod": torch.mul, "max": torch.maximum, "min": torch.minimum}


def all_reduce(tensors: list[Tensor], reduction: str) -> list[Tensor]:
    return [reduce(STEPS[reduction], tensors)] * len(tensors)


def reduce_scatter(tensors: list[Tensor], reduction: str) -> list[Tensor]:
    return list(reduce(STEPS[reduction], tensors).chunk(len(tensors)))


def all_gather(values: list[Any]) -> list[list[Any]]:
    return [values] * len(values)


def all_to_all(parts: list[list[Any]]) -> list[list[Any]]:
    return [list(row) for row in zip(*parts, strict=True)]


def broadcast(tensors: list[Tensor], root: int) -> list[Tensor]:
    return [tensors[root]] * len(tensors)


def split(given: list[tuple[int | None, int]]) -> list[list[int] | None]:
    """The ranks of each member's part, in their new order."""
    order = sorted(range(len(given)), key=lambda rank: (given[rank][1], rank))
    return [None if c is None else [r for r in order if given[r][0] == c] for c, _ in given]
