"""Regions sent to the levels of a feature pyramid, and collected from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from refluid.core import flags
from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.checks import at_least
from refluid.ir.operator import Operator
from refluid.ops.bounded import Boxes, Positive
from refluid.ops.detection.shapes import ROWS, infer_by
from refluid.ops.infer import InputSpec
from refluid.ops.registry import operator
from refluid.ops.required import require_rows

_EPSILON = 1e-6


def _levels(attrs: Mapping[str, Any]) -> int:
    return max(int(attrs["max_level"]) - int(attrs["min_level"]) + 1, 0)


def _distributed(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    levels, made = _levels(op.attrs), len(op.output("MultiFpnRois"))
    if made != levels:
        raise EnforceNotMet(
            f"min_level {op.attrs['min_level']} to max_level {op.attrs['max_level']} are "
            f"{levels} levels, but MultiFpnRois has {made} variables"
        )
    dtype = inputs["FpnRois"][1]
    return {"MultiFpnRois": ((ROWS, 4), dtype), "RestoreIndex": ((ROWS, 1), VarType.INT32)}


def _collected(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    return {"FpnRois": ((op.attrs["post_nms_topN"], 4), inputs["MultiLevelRois"][1])}


@operator(
    "distribute_fpn_proposals",
    outputs="MultiFpnRois* RestoreIndex",
    uses=None,
    lod="",
    makes_lod="MultiFpnRois",
    infer=infer_by(_distributed, MultiFpnRois="FpnRois"),
)
def distribute_fpn_proposals(
    FpnRois: Boxes,
    *,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: Positive,
    lod_FpnRois: Levels = (),
) -> tuple[list[Tensor], Tensor, list[Levels]]:
    """RoIs by level, floor(refer_level + log2(sqrt(area) / refer_scale)), images kept apart.

    RestoreIndex, int32 (R, 1): where each RoI is among those of all levels one after another.
    """
    if not lod_FpnRois:
        raise EnforceNotMet("FpnRois carries no LoD: it says which regions are of which image")
    image, images = lod_FpnRois[-1].owners(FpnRois.device), len(lod_FpnRois[-1])
    levels = min_level, max_level, refer_level, refer_scale
    parts, place, bounds = by_level(FpnRois, image, images, levels, normalized=False)
    return parts, place, [(Offsets(row),) for row in bounds.numpy()]


def by_level(
    rois: Tensor, image: Tensor, images: int, how: tuple[int, int, int, int], *, normalized: bool
) -> tuple[list[Tensor], Tensor, Tensor]:
    """(regions by level, the place of each, offsets of images (levels, images + 1)).

    how: the lowest level, the highest, that of regions of a size, and that size. Done by NumPy,
    whose calls take a third of the time of torch's for so few numbers.
    """
    min_level, max_level, refer_level, refer_scale = how
    size = rois[:, 2:] - rois[:, :2]
    width, height = (size if normalized else size + 1).cpu().numpy().T
    least = 0 if normalized else 1
    area = np.where((width < least) | (height < least), width.dtype.type(0), width * height)
    scale = torch.from_numpy(np.sqrt(area) / area.dtype.type(refer_scale)).add_(_EPSILON)
    level = scale.log2_().add_(refer_level).floor_().clamp_(min_level, max_level).numpy()
    if np.isnan(level).any():
        raise ValueError("corners of RoIs are NaN: what computed them has diverged")
    levels = max_level - min_level + 1
    key = level.astype(np.int64) - min_level
    if images > 1:
        key = key * images + image.cpu().numpy()
    fits = levels * images <= np.iinfo(np.int16).max  # what is that small is sorted by its digits
    order = np.argsort(key.astype(np.int16) if fits else key, kind="stable")
    place = np.empty((len(order), 1), np.int32)
    place[order, 0] = np.arange(len(order), dtype=np.int32)
    counts = np.bincount(key, minlength=levels * images).reshape(levels, images)
    bounds = np.zeros((levels, images + 1), np.int64)
    np.cumsum(counts, 1, out=bounds[:, 1:])
    chosen = rois.index_select(0, torch.from_numpy(order).to(rois.device))
    parts = chosen.split_with_sizes(bounds[:, -1].tolist())
    return list(parts), torch.from_numpy(place).to(rois.device), torch.from_numpy(bounds)


@operator(
    "collect_fpn_proposals",
    outputs="FpnRois",
    uses=None,
    lod="",
    makes_lod="FpnRois",
    infer=infer_by(_collected, FpnRois="MultiLevelRois"),
)
def collect_fpn_proposals(
    MultiLevelRois: list[Tensor],
    MultiLevelScores: list[Tensor],
    *,
    post_nms_topN: Annotated[int, at_least(0)],
    lods_MultiLevelRois: list[Levels],
) -> tuple[Tensor, Levels]:
    """The `post_nms_topN` best RoIs of all levels and images, by image and falling score.

    As in Fluid, of equal scores the last is the best. Images that are left without a RoI stay in
    the LoD, empty; Fluid's CPU leaves out those after the last RoI.
    """
    _require_levels(MultiLevelRois, MultiLevelScores, lods_MultiLevelRois)
    rois = torch.cat([one.reshape(-1, 4) for one in MultiLevelRois])
    scores = torch.cat([one.reshape(-1) for one in MultiLevelScores])
    image = torch.cat([_images(lod[-1], rois.device) for lod in lods_MultiLevelRois])
    from_last = torch.argsort(scores.flip(0), descending=True, stable=True)
    best = (len(scores) - 1 - from_last)[:post_nms_topN]
    chosen = best[torch.argsort(image[best], stable=True)]
    least = 0 if flags.value("refluid_fluid_cpu_faults") else len(lods_MultiLevelRois[0][-1])
    lengths = torch.bincount(image[chosen], minlength=least)
    return rois[chosen], (Offsets.of_lengths(lengths.tolist()),)


def _require_levels(rois: list[Tensor], scores: list[Tensor], lods: list[Levels]) -> None:
    """EnforceNotMet where levels lack scores, or aren't of the same images."""
    if len(rois) != len(scores):
        raise EnforceNotMet(
            f"there are MultiLevelRois of {len(rois)} levels and MultiLevelScores of "
            f"{len(scores)}: each level needs both"
        )
    if not all(lods):
        raise EnforceNotMet("MultiLevelRois carry no LoD: it says which are of which image")
    images = [len(lod[-1]) for lod in lods]
    if len(set(images)) > 1:
        raise EnforceNotMet(
            f"MultiLevelRois are of {images} images: the LoD of each level has to name all of them"
        )
    for level, (some, score) in enumerate(zip(rois, scores, strict=True)):
        require_rows("MultiLevelScores", score, f"MultiLevelRois of level {level}", len(some))


def _images(images: Offsets, device: torch.device) -> Tensor:
    """The image of each RoI.

    Fluid's CPU goes on by one image at most from one RoI to the next, so that those after empty
    images count as of an earlier one.
    """
    owners = images.owners(device)
    if not flags.value("refluid_fluid_cpu_faults") or device.type != "cpu" or not images.total:
        return owners
    place = torch.arange(len(owners))
    return torch.cummin(owners - place, 0).values.clamp(max=1) + place
