"""The largest elements of rows, equal ones in the order in which a heap gives them up.

Fluid selects by the partial sort of the C++ standard library. Its order of equal elements is
neither first come first nor random, and decides which of them are among the largest.
"""

from __future__ import annotations

import torch
from torch import Tensor

Heap = list[tuple[float, int]]


def partially_sorted(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest elements of the last dimension, largest first, and their positions."""
    if x.device.type != "cpu":
        return torch.topk(x, count, -1)
    values, places = torch.topk(x, min(count + 1, x.shape[-1]), -1)
    tied = (values[..., 1:] == values[..., :-1]).any(-1)
    values, places = values[..., :count].contiguous(), places[..., :count].contiguous()
    rows = x.reshape(-1, x.shape[-1])
    chosen = places.view(rows.shape[0], count)
    for row in tied.flatten().nonzero().flatten().tolist():
        chosen[row] = torch.tensor([place for _, place in _largest(rows[row].tolist(), count)])
    return values, places


def _largest(values: list[float], count: int) -> Heap:
    """A heap with the least of the largest on top, which larger ones replace, then emptied."""
    heap = [(value, place) for place, value in enumerate(values[:count])]
    for root in range(count // 2 - 1, -1, -1):
        _sink(heap, root, count, heap[root])
    for place in range(count, len(values)):
        if values[place] > heap[0][0]:
            _sink(heap, 0, count, (values[place], place))
    for end in range(count - 1, 0, -1):
        last, heap[end] = heap[end], heap[0]
        _sink(heap, 0, end, last)
    return heap


def _sink(heap: Heap, hole: int, size: int, item: tuple[float, int]) -> None:
    """Puts `item` at `hole`: the lesser child moves up down to a leaf, then `item` rises."""
    top, child = hole, 2 * hole + 2
    while child < size:
        if heap[child][0] > heap[child - 1][0]:
            child -= 1
        heap[hole] = heap[child]
        hole, child = child, 2 * child + 2
    if child == size:
        heap[hole] = heap[child - 1]
        hole = child - 1
    while hole > top and heap[(hole - 1) // 2][0] > item[0]:
        heap[hole] = heap[(hole - 1) // 2]
        hole = (hole - 1) // 2
    heap[hole] = item
