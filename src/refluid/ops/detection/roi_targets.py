"""generate_proposal_labels: which regions a detector learns from, and what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.checks import Check
from refluid.ir.operator import Operator
from refluid.ops.bounded import Boxes, ImageSizes
from refluid.ops.detection.overlaps import iou_similarity, sides
from refluid.ops.detection.pixel_boxes import encoded
from refluid.ops.detection.sampling import by_image, require_together, some
from refluid.ops.detection.shapes import ROWS, infer_by
from refluid.ops.infer import InputSpec
from refluid.ops.registry import operator
from refluid.ops.signature import Random

_Weights = Annotated[Sequence[float], Check("4 numbers", lambda given: len(given) == 4)]


def _infer(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    dtype = inputs["RpnRois"][1]
    wide = (ROWS, 4 * op.attrs["class_nums"])
    moves = ("BboxTargets", "BboxInsideWeights", "BboxOutsideWeights")
    return {
        "Rois": ((ROWS, 4), dtype),
        "LabelsInt32": ((ROWS, 1), VarType.INT32),
    } | dict.fromkeys(moves, (wide, dtype))


@dataclass(frozen=True)
class _Sampler:
    """How regions are chosen.

    overlaps: from where foreground, from and up to where background. sizes: how many of an image
    (foreground, all), None for a cascade's later stage, which takes all. random: None for those
    that come first.
    """

    overlaps: tuple[float, float, float]
    sizes: tuple[int, int] | None
    weights: Sequence[float]
    random: Random | None

    def of_image(
        self, image: Tensor, rois: Tensor, kinds: Tensor, crowd: Tensor, boxes: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Regions of one image, their classes and their moves to the boxes."""
        rois = _candidates(rois, boxes, image[2], self.sizes is None)
        best, box = _closest(rois, boxes)
        own = best[: len(boxes)]
        own[crowd[: len(own)] != 0] = -1
        front, back = self.split(best)
        chosen = torch.cat([front, back])
        labels = torch.cat([kinds[box[front]].int(), torch.zeros_like(back, dtype=torch.int32)])
        found = rois[chosen]
        moves = encoded(found, boxes[box[chosen]] if len(boxes) else found, self.weights)
        return found * image[2], labels, moves

    def split(self, best: Tensor) -> tuple[Tensor, Tensor]:
        """Places of foreground and background RoIs by their overlap."""
        front_from, low, high = self.overlaps
        front = (best >= front_from).nonzero()[:, 0]
        back = ((best >= low) & (best < high)).nonzero()[:, 0]
        if self.sizes is not None:
            draw = self.random is not None
            generator = self.random(0) if self.random is not None else None
            front = some(front, self.sizes[0], generator, draw)
            back = some(back, self.sizes[1] - len(front), generator, draw)
        return front, back


def _spread(moves: Tensor, labels: Tensor, classes: int, agnostic: bool) -> tuple[Tensor, Tensor]:
    """Moves (P, 4) at the place of their class in (P, 4 * classes), and weights 1 there."""
    kind = labels.clamp(max=1) if agnostic else labels
    if kind.numel() and not 0 <= int(kind.min()) <= int(kind.max()) < classes:
        raise EnforceNotMet(
            f"regions are of the classes {int(kind.min())} to {int(kind.max())} of GtClasses, but "
            f"class_nums is {classes}: classes are from 0 (background) to below that"
        )
    hit = torch.nn.functional.one_hot(kind.long(), classes) * (labels > 0)[:, None]
    weight = hit[:, :, None].to(moves.dtype).expand(-1, -1, 4)
    wide = torch.where(weight > 0, moves[:, None], 0)
    return wide.reshape(-1, 4 * classes), weight.reshape(-1, 4 * classes)


def _candidates(rois: Tensor, boxes: Tensor, scale: Tensor, cascade: bool) -> Tensor:
    """The boxes and RoIs in pixels of the image; for a cascade those RoIs that have an area.

    Fluid takes the first candidates for the boxes in a cascade, too: as many as there are boxes
    are not scaled, and left out where the box in their place is a crowd.
    """
    if not cascade:
        return torch.cat([boxes, rois / scale])
    width, height = sides(rois, normalized=False)
    rois = rois[(width > 0) & (height > 0)]
    return torch.cat([rois[: len(boxes)], rois[len(boxes) :] / scale])


def _closest(rois: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """The largest overlap of each RoI with a box, and the place of that box."""
    if len(boxes) == 0:
        return rois.new_zeros(len(rois)), rois.new_zeros(len(rois), dtype=torch.int64)
    best, box = iou_similarity(rois, boxes, box_normalized=False).max(1)
    return best, box


@operator(
    "generate_proposal_labels",
    outputs="Rois LabelsInt32 BboxTargets BboxInsideWeights BboxOutsideWeights",
    uses=None,
    lod="",
    makes_lod="Rois LabelsInt32 BboxTargets BboxInsideWeights BboxOutsideWeights",
    infer=infer_by(_infer),
)
def generate_proposal_labels(
    RpnRois: Boxes,
    GtClasses: Tensor,
    IsCrowd: Tensor,
    GtBoxes: Boxes,
    ImInfo: ImageSizes,
    *,
    batch_size_per_im: int,
    fg_fraction: float,
    fg_thresh: float,
    bg_thresh_hi: float,
    bg_thresh_lo: float,
    bbox_reg_weights: _Weights,
    class_nums: int,
    use_random: bool = True,
    is_cascade_rcnn: bool = False,
    is_cls_agnostic: bool = False,
    random: Random,
    lod_RpnRois: Levels = (),
    lod_GtClasses: Levels = (),
    lod_IsCrowd: Levels = (),
    lod_GtBoxes: Levels = (),
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Levels, Levels, Levels, Levels, Levels]:
    """Regions to learn from, foreground before background, their classes and moves to the boxes.

    Candidates are RpnRois and the boxes themselves. Foreground overlaps a box by `fg_thresh`,
    background by [bg_thresh_lo, bg_thresh_hi); of `batch_size_per_im` at most `fg_fraction` is
    foreground. `is_cascade_rcnn`, a later stage, takes all of RpnRois and no boxes, see
    `_candidates`. Moves and weights are at the place of the class, at 1 if `is_cls_agnostic`.
    """
    values = by_image(
        where="generate_proposal_labels",
        images=len(ImInfo),
        RpnRois=(RpnRois, lod_RpnRois),
        GtClasses=(GtClasses.reshape(-1), lod_GtClasses),
        IsCrowd=(IsCrowd.reshape(-1), lod_IsCrowd),
        GtBoxes=(GtBoxes, lod_GtBoxes),
    )
    require_together(GtBoxes=lod_GtBoxes, GtClasses=lod_GtClasses, IsCrowd=lod_IsCrowd)
    sampler = _Sampler(
        (fg_thresh, bg_thresh_lo, bg_thresh_hi),
        None if is_cascade_rcnn else (int(batch_size_per_im * fg_fraction), batch_size_per_im),
        bbox_reg_weights,
        random if use_random else None,
    )
    made = [sampler.of_image(image, *own) for image, own in zip(ImInfo, values, strict=True)]
    rois, kind, moves = (torch.cat(each) for each in zip(*made, strict=True))
    wide, weight = _spread(moves, kind, class_nums, is_cls_agnostic)
    lod = (Offsets.of_lengths(len(own) for own, _, _ in made),)
    return rois, kind[:, None], wide, weight, weight, *(lod,) * 5
