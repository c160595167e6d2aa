"""Boxes that are proposed, suppressed, and pooled."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from refluid.convert.parts.boxes import overlaps, sides


def suppressed(boxes: Tensor, threshold: float, eta: float, normalized: bool) -> Tensor:
    """Which of the boxes (N, 4), the best first, overlap no better one that stays by more."""
    table = overlaps(boxes, boxes, normalized).nan_to_num(torch.inf)
    kept: list[int] = []
    for place in range(len(boxes)):
        if not kept or bool((table[place, kept] <= threshold).all()):
            kept.append(place)
            threshold = threshold * eta if eta < 1 and threshold > 0.5 else threshold
    return torch.tensor(kept, dtype=torch.int64, device=boxes.device)


def multiclass_nms(
    boxes: Tensor,
    scores: Tensor,
    background: int,
    score_threshold: float,
    nms_top_k: int,
    nms_threshold: float,
    eta: float,
    keep_top_k: int,
    normalized: bool,
) -> tuple[Tensor, Tensor]:
    """Rows (class, score, box) of the boxes (N, M, 4) of scores (N, C, M), and rows per image.

    Where nothing is found at all there is one row of -1.
    """
    found, counts = [], []
    for box, score in zip(boxes, scores):
        rows = [boxes.new_zeros(0, 2 + boxes.shape[2])]
        for label in range(len(score)):
            order = score[label].argsort(descending=True, stable=True)
            order = order[score[label][order] > score_threshold]
            order = order[: nms_top_k if nms_top_k >= 0 else None]
            if label == background or not len(order):
                continue
            kept = order[suppressed(box[order], nms_threshold, eta, normalized)]
            labels = torch.full((len(kept), 1), float(label), device=boxes.device)
            rows.append(torch.cat([labels, score[label][kept, None], box[kept]], 1))
        image = torch.cat(rows)
        if 0 <= keep_top_k < len(image):
            best = image[:, 1].argsort(descending=True, stable=True)[:keep_top_k]
            image = image[best.sort().values]
        found.append(image)
        counts.append(len(image))
    if not sum(counts):
        return boxes.new_full((1, 1), -1.0), torch.ones(1, dtype=torch.int64, device=boxes.device)
    return torch.cat(found), torch.tensor(counts, device=boxes.device)


def proposals(
    scores: Tensor,
    deltas: Tensor,
    sizes: Tensor,
    anchors: Tensor,
    variances: Tensor,
    before: int,
    after: int,
    threshold: float,
    smallest: float,
    eta: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The best boxes of each image, their scores (rows, 1), and how many an image has.

    scores (N, A, H, W) and deltas (N, 4 * A, H, W) refine anchors (H, W, A, 4); sizes (N, 3):
    height, width and scale. The best `before` are decoded, small and overlapping ones dropped.
    """
    anchors, variances = anchors.reshape(-1, 4), variances.reshape(-1, 4)
    found, counts = [], []
    for score, delta, image in zip(scores, deltas, sizes):
        score = score.permute(1, 2, 0).flatten()[: len(anchors)]
        order = score.argsort(descending=True, stable=True)
        order = order[:before] if before > 0 else order
        move = delta.permute(1, 2, 0).reshape(-1, 4)[order] * variances[order]
        size = sides(anchors[order], False)
        middle = anchors[order][:, :2] + size / 2 + move[:, :2] * size
        half = move[:, 2:].clamp(max=math.log(1000 / 16)).exp() * size / 2
        limit = (image[[1, 0]] - 1).repeat(2)
        box = torch.minimum(torch.cat([middle - half, middle + half - 1], 1), limit).clamp(min=0)
        size = box[:, 2:] - box[:, :2]
        large = size / image[2] + 1 >= max(smallest, 1.0)
        kept = (large & (box[:, :2] + (size + 1) / 2 <= image[[1, 0]])).all(1).nonzero()[:, 0]
        kept = kept[suppressed(box[kept], threshold, eta, False)]
        kept = kept[:after] if after > 0 else kept
        found.append(torch.cat([box[kept], score[order][kept, None]], 1))
        counts.append(len(kept))
    rows = torch.cat(found)
    return rows[:, :4], rows[:, 4:], torch.tensor(counts, device=scores.device)


def best_proposals(
    levels: list[Tensor], scores: list[Tensor], lengths: list[Tensor], count: int
) -> tuple[Tensor, Tensor]:
    """The `count` best regions of all levels and images, by image, and how many an image has."""
    boxes, flat = torch.cat(levels), torch.cat(scores).flatten()
    owners = [torch.arange(len(one), device=boxes.device).repeat_interleave(one) for one in lengths]
    image = torch.cat(owners)
    from_last = flat.flip(0).argsort(descending=True, stable=True)
    best = (len(flat) - 1 - from_last)[:count]
    chosen = best[image[best].argsort(stable=True)]
    return boxes[chosen], torch.bincount(image[chosen])


def regions_by_level(
    rois: Tensor, lengths: Tensor, low: int, high: int, level: int, scale: int
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Regions by the level of their size, their lengths, and where each is among all of them."""
    image = torch.arange(len(lengths), device=rois.device).repeat_interleave(lengths)
    size = sides(rois, False)
    area = torch.where((size < 1).any(1), 0.0, size.prod(1))
    found = (
        torch.floor(torch.log2(area.sqrt() / scale + 1e-6) + level).clamp(low, high).long() - low
    )
    order = (found * len(lengths) + image).argsort(stable=True)
    key, levels = found * len(lengths) + image, high - low + 1
    counts = torch.bincount(key, minlength=levels * len(lengths)).reshape(levels, -1)
    parts = rois[order].split(counts.sum(1).tolist())
    return list(parts), list(counts), order.argsort().int()[:, None]


def bin_weights(start: Tensor, extent: Tensor, bins: int, ratio: int, size: int) -> Tensor:
    """How much each of `size` pixels counts in each bin of each region (R, bins, size)."""
    step = extent / bins
    count = torch.full_like(step, ratio) if ratio > 0 else step.ceil()
    sample = torch.arange(int(count.max()) if len(count) else 1, device=start.device)
    grid = torch.arange(bins, device=start.device)[:, None]
    at = start[:, None, None] + grid * step[:, None, None]
    at = at + (sample + 0.5) * (step / count)[:, None, None]
    real = (sample < count[:, None, None]) & (at >= -1) & (at <= size)
    at = at.clamp(0, size - 1)
    pixels = torch.arange(size, device=start.device)
    share = (1 - (pixels - at[..., None]).abs()).clamp(min=0)
    return (share * real[..., None]).sum(2) / count[:, None, None]


def roi_align(
    x: Tensor, rois: Tensor, lengths: Tensor, scale: float, height: int, width: int, ratio: int
) -> Tensor:
    """Each region of its image as (C, height, width): means of bilinear samples."""
    image = torch.arange(len(lengths), device=x.device).repeat_interleave(lengths)
    box = rois.detach() * scale
    extent = (box[:, 2:] - box[:, :2]).clamp(min=1)
    y = bin_weights(box[:, 1], extent[:, 1], height, ratio, x.shape[2])
    z = bin_weights(box[:, 0], extent[:, 0], width, ratio, x.shape[3])
    return torch.einsum("rchw,ryh,rzw->rcyz", x[image], y, z)
