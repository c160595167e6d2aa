"""Boxes: priors, codes, overlaps, suppression, regions."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def cell_points(x: Tensor, steps: tuple[float, float], shift: tuple[float, float]) -> Tensor:
    """The points (H, W, 1, 2) of a map's cells."""
    height, width = x.shape[2:]
    across = torch.arange(width, device=x.device, dtype=x.dtype) * steps[0] + shift[0]
    down = torch.arange(height, device=x.device, dtype=x.dtype) * steps[1] + shift[1]
    return torch.stack(torch.meshgrid(across, down, indexing="xy"), -1).unsqueeze(2)


def prior_box(
    x: Tensor,
    image: Tensor,
    min_sizes: list[float],
    max_sizes: list[float],
    aspect_ratios: list[float],
    variances: list[float],
    flip: bool,
    clip: bool,
    step_w: float,
    step_h: float,
    offset: float,
    max_second: bool,
) -> tuple[Tensor, Tensor]:
    """Boxes (H, W, priors, 4) in parts of the image around the map's cells, and their variances."""
    ratios = [1.0]
    for ratio in aspect_ratios:
        if all(abs(ratio - one) >= 1e-6 for one in ratios):
            ratios += [ratio, 1 / ratio] if flip else [ratio]
    sizes = []
    for place, size in enumerate(min_sizes):
        own = [(size * math.sqrt(ratio), size / math.sqrt(ratio)) for ratio in ratios]
        if max_sizes:
            between = math.sqrt(size * max_sizes[place])
            own.insert(1 if max_second else len(own), (between, between))
        sizes += own
    whole = image.shape[3], image.shape[2]
    given = step_w and step_h
    steps = (step_w, step_h) if given else (whole[0] / x.shape[3], whole[1] / x.shape[2])
    center = cell_points(x, steps, (offset * steps[0], offset * steps[1]))
    half, scale = x.new_tensor(sizes) / 2, x.new_tensor(whole)
    boxes = torch.cat([(center - half) / scale, (center + half) / scale], -1)
    boxes = boxes.clamp(0, 1) if clip else boxes
    return boxes, x.new_tensor(variances).expand(boxes.shape)


def density_prior_box(
    x: Tensor,
    image: Tensor,
    sizes: list[float],
    ratios: list[float],
    densities: list[int],
    variances: list[float],
    clip: bool,
    flat: bool,
    step_w: float,
    step_h: float,
    offset: float,
) -> tuple[Tensor, Tensor]:
    """Boxes laid densities times over each cell, once per ratio, and their variances."""
    whole = image.shape[3], image.shape[2]
    given = step_w and step_h
    steps = (step_w, step_h) if given else (whole[0] / x.shape[3], whole[1] / x.shape[2])
    average, own, moves = int((steps[0] + steps[1]) * 0.5), [], []
    for size, density in zip(sizes, densities):
        shift = average // density
        places = [(shift - average) / 2 + shift * place for place in range(density)]
        grid = [(across, down) for down in places for across in places]
        for ratio in ratios:
            own += [(size * math.sqrt(ratio), size / math.sqrt(ratio))] * len(grid)
            moves += grid
    center = cell_points(x, steps, (offset * steps[0], offset * steps[1])) + x.new_tensor(moves)
    half, scale = x.new_tensor(own) / 2, x.new_tensor(whole)
    low, high = ((center - half) / scale).clamp(min=0), ((center + half) / scale).clamp(max=1)
    boxes = torch.cat([low, high], -1)
    boxes = boxes.clamp(0, 1) if clip else boxes
    boxes = boxes.reshape(-1, 4) if flat else boxes
    return boxes, x.new_tensor(variances).expand(boxes.shape)


def anchors_of(
    x: Tensor,
    sizes: list[float],
    ratios: list[float],
    variances: list[float],
    stride: tuple[float, float],
    offset: float,
) -> tuple[Tensor, Tensor]:
    """Anchors (H, W, ratios * sizes, 4) in pixels around the map's cells, and their variances."""
    across, down = stride
    found = []
    for ratio in ratios:
        width = math.floor(math.sqrt(across * down / ratio) + 0.5)
        height = math.floor(width * ratio + 0.5)
        found += [(size / across * width, size / down * height) for size in sizes]
    center = cell_points(x, stride, (offset * (across - 1), offset * (down - 1)))
    half = (x.new_tensor(found) - 1) / 2
    anchors = torch.cat([center - half, center + half], -1)
    return anchors, x.new_tensor(variances).expand(anchors.shape)


def sides(boxes: Tensor, normalized: bool) -> Tensor:
    """Width and height (..., 2); a pixel more where boxes aren't parts of the image."""
    size = boxes[..., 2:] - boxes[..., :2]
    return size if normalized else size + 1


def encoded_boxes(
    prior: Tensor, variance: Tensor | None, target: Tensor, normalized: bool
) -> Tensor:
    """Differences (N, M, 4) of boxes (N, 4) from priors (M, 4)."""
    size = sides(prior, normalized)
    center = prior[:, :2] + size / 2
    middle = (target[:, None, :2] + target[:, None, 2:]) / 2
    ratio = sides(target, normalized)[:, None] / size
    code = torch.cat([(middle - center) / size, ratio.abs().log()], -1)
    return code if variance is None else code / variance


def decoded_boxes(
    prior: Tensor, variance: Tensor | None, code: Tensor, normalized: bool, axis: int
) -> Tensor:
    """The boxes (N, M, 4) that differ so from the priors, which run along the other axis."""
    prior = prior.unsqueeze(axis)
    if variance is not None:
        code = code * (variance.unsqueeze(axis) if variance.dim() > 1 else variance)
    size = sides(prior, normalized)
    middle = prior[..., :2] + size / 2 + code[..., :2] * size
    half = code[..., 2:].exp() * size / 2
    return torch.cat([middle - half, middle + half - (0 if normalized else 1)], -1)


def overlaps(one: Tensor, other: Tensor, normalized: bool, small: float = 0.0) -> Tensor:
    """(N, 4), (M, 4) -> (N, M): shared area by covered area."""
    low = torch.maximum(one[:, None, :2], other[:, :2])
    high = torch.minimum(one[:, None, 2:], other[:, 2:])
    shared = (high - low + (0 if normalized else 1)).clamp(min=0).prod(-1)
    areas = sides(one, normalized).prod(-1)[:, None] + sides(other, normalized).prod(-1)
    return shared / (areas - shared + small)


def matched(
    distances: Tensor, lengths: Tensor, per_prediction: bool, threshold: float
) -> tuple[Tensor, Tensor]:
    """Greedily the box that each prior is matched to, -1 for none, and how close they are.

    distances: (boxes, priors) of all images, `lengths` boxes each.
    """
    found, close = [], []
    for table in distances.split(lengths.tolist()):
        index = torch.full((distances.shape[1],), -1, device=distances.device)
        distance = distances.new_zeros(distances.shape[1])
        left = table.masked_fill(table < 1e-6, -1.0)
        for _ in range(len(table)):
            best, row = left.max(0) if len(table) else (distance, index)
            column = int(best.argmax())
            if best[column] <= 0:
                break
            index[column], distance[column] = row[column], best[column]
            left[row[column]], left[:, column] = -1.0, -1.0
        if per_prediction and len(table):
            best, row = table.max(0)
            more = (index < 0) & (best >= max(threshold, 1e-6))
            index, distance = torch.where(more, row, index), torch.where(more, best, distance)
        found.append(index)
        close.append(distance)
    return torch.stack(found).int(), torch.stack(close)


def assigned(
    x: Tensor,
    lengths: Tensor,
    match: Tensor,
    fill: float,
    negatives: Tensor | None = None,
    negative_lengths: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """What each prior is to predict (N, P, K), and its weight (N, P, 1), by the box it matches."""
    out = x.new_full((*match.shape, x.shape[2]), fill)
    weight = torch.zeros((*match.shape, 1), device=x.device)
    image, prior = (match > -1).nonzero(as_tuple=True)
    starts = lengths.cumsum(0) - lengths
    out[image, prior] = x[starts[image] + match[image, prior], prior % x.shape[1]]
    weight[image, prior] = 1.0
    if negatives is not None and negative_lengths is not None:
        owner = torch.arange(len(lengths), device=x.device).repeat_interleave(negative_lengths)
        out[owner, negatives.flatten().long()] = fill
        weight[owner, negatives.flatten().long()] = 1.0
    return out, weight


def hard_negatives(
    loss: Tensor, match: Tensor, distance: Tensor, ratio: float, threshold: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The priors without match of the highest loss, `ratio` times as many as have one.

    (negatives, 1), their number in each image, and the matches.
    """
    free = match == -1
    eligible = free & (distance < threshold)
    wanted = ((~free).sum(1).float() * ratio).long()
    order = loss.masked_fill(~eligible, -torch.inf).argsort(dim=1, descending=True, stable=True)
    chosen = eligible & (order.argsort(dim=1) < wanted[:, None])
    return chosen.nonzero()[:, 1:].int(), chosen.sum(1), match
