"""What ground truth asks of the cells of a YOLOv3 map. Boxes are center x, y, width, height."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_LEAST = 1e-6
_SMOOTH = 1 / 40
_CHUNK = 1 << 23


@dataclass(frozen=True)
class Grid:
    """A map of predictions: its size, all anchors (in pixels), those that are the map's own."""

    height: int
    width: int
    anchors: Tensor
    mask: Sequence[int]
    downsample: int

    @property
    def own(self) -> Tensor:
        """Sizes (A, 2) of the anchors of this map."""
        return self.anchors[list(self.mask)]

    @property
    def cells(self) -> Tensor:
        """Width and height of the map (2)."""
        return self.anchors.new_tensor((self.width, self.height))


@dataclass(frozen=True)
class Targets:
    """What the boxes that found an anchor of the map ask of their cells, one row per box.

    plane: image * anchors + anchor. cell: row * width + column. xy: in the cell. wh: logarithms
    of the size by the anchor's. scale: of the location's loss, more for small boxes. weight: the
    box's score.
    """

    image: Tensor
    plane: Tensor
    cell: Tensor
    xy: Tensor
    wh: Tensor
    scale: Tensor
    weight: Tensor
    classes: Tensor

    def last(self, planes: int, cells: int) -> Tensor:
        """The last box of each place (planes * cells), -1 for none."""
        found = torch.full((planes * cells,), -1, device=self.cell.device)
        place = (self.plane * cells + self.cell).clamp(0, len(found) - 1)
        return found.scatter_reduce_(
            0, place, torch.arange(len(place), device=place.device), "amax"
        )

    def numbers(self, raw: Tensor) -> Tensor:
        """Where in `raw` (N, A, 5 + C, H, W), flat, are the predictions (boxes, 5 + C)."""
        _, _, entries, height, width = raw.shape
        entry = torch.arange(entries, device=raw.device)
        index = (self.plane[:, None] * entries + entry) * (height * width) + self.cell[:, None]
        return index.clamp(0, raw.numel() - 1)


def there(boxes: Tensor) -> Tensor:
    """Which of the boxes (.., 4) are more than filling."""
    return (boxes[..., 2:] >= _LEAST).all(-1)


def match_anchors(GTBox: Tensor, grid: Grid) -> Tensor:
    """For each box (N, B) the place in the map of the anchor most like it in shape, or -1."""
    size = GTBox[..., None, 2:]
    anchors = (grid.anchors / (grid.downsample * grid.cells)).to(GTBox.dtype)
    shared = torch.minimum(size, anchors).prod(-1)
    like = shared / (size.prod(-1) + anchors.prod(-1) - shared)
    place = grid.anchors.new_full((len(anchors),), -1)
    place[list(grid.mask)] = torch.arange(len(grid.mask), device=GTBox.device)
    return place[like.argmax(-1)].masked_fill(~there(GTBox), -1)


def targets_of(
    match: Tensor, boxes: Tensor, score: Tensor | None, classes: Tensor, grid: Grid
) -> Targets:
    """The targets of the boxes (N, B, 4) that `match` an anchor; classes: (N, B, C)."""
    image, number = (match >= 0).nonzero(as_tuple=True)
    box, anchor = boxes[image, number], match[image, number].long()
    scaled = box[:, :2] * grid.cells
    column, row = (cell := scaled.long()).unbind(1)
    wanted = box[:, 2:] * (grid.cells * grid.downsample) / grid.own[anchor]
    weight = box.new_ones(len(box)) if score is None else score[image, number].to(box.dtype)
    return Targets(
        image,
        image * len(grid.mask) + anchor,
        row * grid.width + column,
        scaled - cell,
        wanted.log(),
        (2.0 - box[:, 2] * box[:, 3]) * weight,
        weight,
        classes[image, number],
    )


def class_targets(label: Tensor, class_num: int, smooth: bool, like: Tensor) -> Tensor:
    """(N, B) -> (N, B, C): 1 at the class, 0 elsewhere; both a little less so if `smooth`."""
    rest = min(1 / class_num, _SMOOTH) if smooth else 0.0
    hot = label[..., None] == torch.arange(class_num, device=label.device)
    return hot.to(like.dtype) * (1 - 2 * rest) + rest


def best_overlaps(predicted: Tensor, boxes: Tensor) -> Tensor:
    """For each prediction (4, N, P) its largest overlap with a box (N, B, 4) of its image."""
    size = max(1, _CHUNK // max(1, predicted.shape[2] * boxes.shape[1]))
    images = [slice(start, start + size) for start in range(0, len(boxes), size)]
    return torch.cat([_best(predicted[:, some], boxes[some]) for some in images])


def _best(predicted: Tensor, boxes: Tensor) -> Tensor:
    if boxes.shape[1] == 0:
        return torch.zeros_like(predicted[0])
    x, y, w, h = predicted[:, :, None]
    bx, by, bw, bh = boxes[..., None].unbind(2)
    width = torch.minimum(x + w / 2, bx + bw / 2) - torch.maximum(x - w / 2, bx - bw / 2)
    height = torch.minimum(y + h / 2, by + bh / 2) - torch.maximum(y - h / 2, by - bh / 2)
    shared = width.clamp(min=0) * height.clamp(min=0)
    overlap: Tensor = shared / (w * h + bw * bh - shared)
    return overlap.masked_fill(~there(boxes)[..., None], 0.0).amax(1)
