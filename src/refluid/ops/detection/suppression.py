"""Greedy suppression: of boxes that overlap too much only the best stays.

Every candidate stays unless a better one that stays overlaps it. Instead of going through the
candidates one by one, all are judged by the present guess of who stays, until the guess no
longer changes; after round n at least the first n are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from refluid.ops.detection.overlaps import Overlap

_BLOCK = 128
_BUDGET = 1 << 19
_ADAPTIVE = 0.5


@dataclass(frozen=True)
class Candidates:
    """Boxes that compete: flat tensors of one length, sorted by group and falling score.

    group: image * classes + class. index: of the box among all boxes given.
    """

    group: Tensor
    score: Tensor
    box: Tensor
    index: Tensor

    @classmethod
    def joined(cls, parts: Sequence[Candidates]) -> Candidates:
        """The candidates of all parts, of which there is at least one."""
        columns = [(one.group, one.score, one.box, one.index) for one in parts]
        return cls(*(torch.cat(column) for column in zip(*columns, strict=True)))

    def __getitem__(self, chosen: Tensor) -> Candidates:
        """Those chosen by a mask, or put in order by indices."""
        return Candidates(
            self.group[chosen], self.score[chosen], self.box[chosen], self.index[chosen]
        )

    def ranked(self) -> Candidates:
        """Sorted by group and falling score; equal ones stay in order."""
        best_first = self[self.score.argsort(descending=True, stable=True)]
        return best_first[best_first.group.argsort(stable=True)]

    def by_index(self) -> Candidates:
        """Sorted by group and index."""
        in_order = self[self.index.argsort(stable=True)]
        return in_order[in_order.group.argsort(stable=True)]

    def best(self, count: int) -> Candidates:
        """The first `count` of each group, or all if it is negative."""
        return self if count < 0 else self[ranks(self.group)[1] < count]

    def best_of_image(self, count: int, classes: int) -> Candidates:
        """The `count` best of each image in the order they had, or all if it is negative."""
        if count < 0:
            return self
        image = self.group // classes
        order = self.score.argsort(descending=True, stable=True)
        order = order[image[order].argsort(stable=True)]
        chosen = torch.zeros_like(self.group, dtype=torch.bool)
        chosen[order[ranks(image[order])[1] < count]] = True
        return self[chosen]


def ranks(group: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of sorted group numbers: which group each is in (from 0), its place there, group sizes."""
    _, number, count = torch.unique_consecutive(group, return_inverse=True, return_counts=True)
    start = count.cumsum(0) - count
    return number, torch.arange(len(group), device=group.device) - start[number], count


def suppress(
    candidates: Candidates, overlap: Overlap, threshold: float, eta: float = 1.0
) -> Candidates:
    """The survivors: no better survivor of the group overlaps them by more than `threshold`.

    eta: with every survivor the threshold is multiplied by it, as long as it is above 0.5.
    """
    number, place, count = ranks(candidates.group)
    kept = torch.zeros_like(candidates.group, dtype=torch.bool)
    sizes = count.tolist()
    limits = _limits(threshold, eta, max(sizes, default=0), candidates.score)
    begin = start = 0
    while start < len(sizes):
        longest = max(sizes[start : start + _BUDGET // _BLOCK])
        groups = max(1, _BUDGET // (longest * min(longest, _BLOCK)))
        end = begin + sum(sizes[start : start + groups])
        own = slice(begin, end)
        row, column = number[own] - start, place[own]
        size = min(groups, len(sizes) - start), max(sizes[start : start + groups])
        boxes = candidates.box.new_zeros((*size, candidates.box.shape[1]))
        boxes[..., 2:] = 1  # a box where there is none
        present = torch.zeros(size, dtype=torch.bool, device=boxes.device)
        boxes[row, column], present[row, column] = candidates.box[own], True
        kept[own] = _survivors(boxes, present, overlap, limits)[row, column]
        start, begin = start + groups, end
    return candidates[kept]


def _limits(threshold: float, eta: float, size: int, like: Tensor) -> Tensor:
    """The threshold after 0, 1 ... size survivors."""
    found = [threshold]
    for _ in range(size if eta < 1 else 0):
        found.append(found[-1] * eta if found[-1] > _ADAPTIVE else found[-1])
    limits = like.new_tensor(found)
    return limits if eta < 1 else limits.expand(size + 1)


def _survivors(boxes: Tensor, present: Tensor, overlap: Overlap, limits: Tensor) -> Tensor:
    """Who stays of (groups, size) candidates, best first; a block of them at a time."""
    kept = torch.zeros_like(present)
    worst = torch.full(present.shape, -torch.inf, dtype=boxes.dtype, device=boxes.device)
    for start in range(0, present.shape[1], _BLOCK):
        block, rest = slice(start, start + _BLOCK), slice(start + _BLOCK, None)
        among = overlap(boxes[:, block], boxes[:, block])
        before = kept.sum(1, keepdim=True)
        kept[:, block] = _settle(among, present[:, block], worst[:, block], before, limits)
        if start + _BLOCK < present.shape[1]:
            winners, some = _first(boxes[:, block], kept[:, block])
            across = overlap(boxes[:, rest], winners).amax(2)
            across = across.masked_fill_(~some, -torch.inf)
            worst[:, rest] = torch.maximum(worst[:, rest], across)
    return kept


def _first(boxes: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """The boxes that are kept, filled up with the last to one number per group; which have some."""
    count = kept.sum(1, keepdim=True)
    order = kept.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
    places = torch.arange(max(1, int(count.max())), device=order.device)
    order = order.gather(1, torch.minimum(places, (count - 1).clamp_(min=0)))
    return boxes.gather(1, order[..., None].expand(-1, -1, boxes.shape[2])), count > 0


def _settle(
    among: Tensor, present: Tensor, worst: Tensor, before: Tensor, limits: Tensor
) -> Tensor:
    """Who stays in a block. worst: overlap with survivors before it, of which there are `before`.

    An overlap that is no number counts as too much.
    """
    guess, limit = present, None
    while True:
        ahead = guess.cumsum(1) - guess.long()
        present_limit = limits[before + ahead]
        if limit is None or not torch.equal(limit, present_limit):
            limit = present_limit
            apart = torch.le(among, limit[..., None], out=torch.empty_like(among)).tril_(-1)
        free = torch.bmm(apart, guess.to(among.dtype)[..., None]).squeeze(2) == ahead
        kept = present & (worst <= limit) & free
        if torch.equal(kept, guess):
            return kept
        guess = kept
