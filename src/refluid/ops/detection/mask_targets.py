"""generate_mask_labels: the masks that a detector is to draw in its foreground regions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from refluid.core import flags
from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.operator import Operator
from refluid.ops.detection.overlaps import iou_similarity
from refluid.ops.detection.rasterising import rasterised
from refluid.ops.detection.shapes import ROWS, infer_by
from refluid.ops.infer import InputSpec
from refluid.ops.registry import operator
from refluid.ops.required import require_rows

_IGNORED = -1


def _infer(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    width = op.attrs["num_classes"] * op.attrs["resolution"] ** 2
    return {
        "MaskRois": ((ROWS, 4), inputs["Rois"][1]),
        "RoiHasMaskInt32": ((ROWS, 1), VarType.INT32),
        "MaskInt32": ((ROWS, width), VarType.INT32),
    }


def _spans(points: Tensor, objects: Offsets) -> Tensor:
    """The boxes (O, 4) around the points (V, 2) of each object."""
    owner = objects.owners(points.device)[:, None].expand(-1, 2)
    space = points.new_zeros(len(objects), 2)
    low = space.scatter_reduce(0, owner, points, "amin", include_self=False)
    return torch.cat([low, space.scatter_reduce(0, owner, points, "amax", include_self=False)], 1)


def _members(groups: Tensor, offsets: Offsets) -> tuple[Tensor, Tensor]:
    """The members of each of `groups` in turn, and which of `groups` (by place) each is of."""
    device = groups.device
    sizes = offsets.length_tensor(device)[groups]
    place = torch.repeat_interleave(torch.arange(len(groups), device=device), sizes)
    first = sizes.cumsum(0) - sizes
    within = torch.arange(place.numel(), device=device) - first[place]
    return offsets.tensor(device)[groups[place]] + within, place


def _masks(rois: Tensor, objects: Tensor, points: Tensor, lod: Levels, size: int) -> Tensor:
    """What of its object each RoI shows: (F, size, size), bool."""
    polygons, roi = _members(objects, lod[1])
    corners, outline = _members(polygons, lod[2])
    box = rois[roi[outline]]
    scale = size / (box[:, 2:] - box[:, :2]).clamp(min=1)
    drawn = rasterised((points[corners] - box[:, :2]) * scale, outline, len(polygons), size)
    shown = torch.zeros(len(rois), size, size, dtype=torch.int32, device=rois.device)
    return shown.index_add_(0, roi, drawn.int()) > 0


def _chosen(labels: Tensor, image: Tensor, images: int) -> Tensor:
    """Places of the foreground RoIs, and of the first background one of images without."""
    front = labels > 0
    lacking = torch.bincount(image[front], minlength=images) == 0
    spare = (labels == 0) & lacking[image]
    rank = spare.cumsum(0)
    before = torch.zeros(images, dtype=rank.dtype, device=rank.device)
    before = before.scatter_reduce(0, image, rank - spare.long(), "amin", include_self=False)
    return (front | (spare & (rank - before[image] == 1))).nonzero()[:, 0]


def _places(chosen: Tensor, owner: Tensor, images: Offsets) -> Tensor:
    """The places (P, 1) of RoIs among those of all images; with the flag, among their image's."""
    if flags.value("refluid_fluid_cpu_faults"):
        chosen = chosen - images.tensor(chosen.device)[owner]
    return chosen.int()[:, None]


def _require_images(images: int, **lods: Offsets) -> None:
    for name, lod in lods.items():
        if len(lod) != images:
            raise EnforceNotMet(
                f"the LoD of {name} describes {len(lod)} images, but ImInfo has {images} rows, "
                "one per image"
            )


@operator(
    "generate_mask_labels",
    outputs="MaskRois RoiHasMaskInt32 MaskInt32",
    uses=None,
    lod="",
    makes_lod="MaskRois RoiHasMaskInt32 MaskInt32",
    infer=infer_by(_infer),
)
def generate_mask_labels(
    ImInfo: Tensor,
    GtClasses: Tensor,
    IsCrowd: Tensor,
    GtSegms: Tensor,
    Rois: Tensor,
    LabelsInt32: Tensor,
    *,
    num_classes: int,
    resolution: int,
    lod_GtSegms: Levels = (),
    lod_Rois: Levels = (),
) -> tuple[Tensor, Tensor, Tensor, Levels, Levels, Levels]:
    """The foreground RoIs (P, 4), their places among Rois (P, 1), and their masks.

    GtSegms (V, 2) are corners of polygons, with the levels image, object, polygon. MaskInt32
    (P, num_classes * resolution ** 2) holds 0 and 1 at the place of the class, -1 elsewhere. An
    image without foreground gives its first background RoI, with -1 everywhere. With
    FLAGS_refluid_fluid_cpu_faults places are counted in each image, as paddle 2.6.2 counts them.
    """
    if len(lod_GtSegms) != 3 or not lod_Rois:
        raise EnforceNotMet(
            "generate_mask_labels: GtSegms needs three levels of LoD (image, object, polygon) and "
            f"Rois one; they have {len(lod_GtSegms)} and {len(lod_Rois)}"
        )
    _require_images(len(ImInfo), GtSegms=lod_GtSegms[0], Rois=lod_Rois[-1])
    require_rows("LabelsInt32", LabelsInt32, "Rois", len(Rois))
    require_rows("GtClasses", GtClasses, "the level of objects of GtSegms", len(lod_GtSegms[1]))
    require_rows("IsCrowd", IsCrowd, "the level of objects of GtSegms", len(lod_GtSegms[1]))
    labels, image = LabelsInt32.reshape(-1).long(), lod_Rois[-1].owners(Rois.device)
    if labels.numel() and int(labels.max()) >= num_classes:
        raise EnforceNotMet(
            f"LabelsInt32 has class {int(labels.max())}, but num_classes is {num_classes}"
        )
    chosen = _chosen(labels, image, len(lod_Rois[-1]))
    owner = image[chosen]
    front, rois = labels[chosen] > 0, Rois[chosen] / ImInfo[owner, 2:]
    spans = _spans(GtSegms, lod_GtSegms[1].through(lod_GtSegms[2]))
    usable = (GtClasses.reshape(-1) > 0) & (IsCrowd.reshape(-1) == 0)
    shared = iou_similarity(rois, spans, box_normalized=False)
    same = owner[:, None] == lod_GtSegms[0].owners(Rois.device)
    shared = shared.masked_fill(~(same & usable), -1)
    area = resolution * resolution
    masks = Rois.new_full((len(chosen), num_classes, area), _IGNORED, dtype=torch.int32)
    if bool(front.any()):
        drawn = _masks(rois[front], shared[front].argmax(1), GtSegms, lod_GtSegms, resolution)
        masks[front, labels[chosen][front]] = drawn.reshape(-1, area).int()
    lod = (Offsets.of_lengths(torch.bincount(owner, minlength=len(lod_Rois[-1])).tolist()),)
    flat = masks.reshape(len(chosen), num_classes * area)
    return rois * ImInfo[owner, 2:], _places(chosen, owner, lod_Rois[-1]), flat, lod, lod, lod
