"""detection_map: mean average precision of detections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.operator import Operator
from refluid.ops.detection.overlaps import overlaps
from refluid.ops.detection.shapes import infer_by
from refluid.ops.infer import InputSpec
from refluid.ops.registry import operator

_RECALLS = 11
_AP_TYPES = ("integral", "11point")


def _infer(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    return {"MAP": ((1,), VarType.FP32)}


@dataclass(frozen=True)
class Judged:
    """Detections that count: class, score, and whether each is true; sorted by class."""

    label: Tensor
    score: Tensor
    true: Tensor

    def sorted(self) -> Judged:
        """By class, and there as they come."""
        order = self.label.argsort(stable=True)
        return Judged(self.label[order], self.score[order], self.true[order])

    def with_flags(self, flags: Tensor) -> Tensor:
        """(detections, 2): score and flag."""
        return torch.stack((self.score, flags.to(self.score.dtype)), 1)


def _judge(
    found: Tensor, truth: Tensor, images: tuple[Tensor, Tensor], threshold: float, difficult: bool
) -> Judged:
    """Which detections count, and which of these are true; `found` the best ones first.

    A detection stands for the box of its image and class that it overlaps most. The first one
    of a box is true, later ones and those of no box are false; those of a difficult box don't
    count unless `difficult`.
    """
    label, score = found[:, 0].long(), found[:, 1]
    if not len(truth):
        return Judged(label, score, torch.zeros_like(label, dtype=torch.bool)).sorted()
    same = (images[0][:, None] == images[1]) & (found[:, :1] == truth[:, 0])
    overlap = overlaps(found[:, 2:].clamp(0, 1), truth[:, -4:], True).masked_fill(~same, -1.0)
    most, box = overlap.max(1)
    hit = most > threshold
    counts = ~hit | difficult | ~_difficult(truth)[box]
    hit &= counts
    place = torch.arange(len(found), device=found.device)
    first = torch.full((len(truth),), len(found), device=found.device)
    first.scatter_reduce_(0, box[hit], place[hit], "amin")
    true = hit & (first[box] == place)
    return Judged(label[counts], score[counts], true[counts]).sorted()


def _difficult(truth: Tensor) -> Tensor:
    """Which boxes are marked as difficult, in rows of label (, difficult), box."""
    if truth.shape[1] == 6:
        return truth[:, 1] != 0
    return torch.zeros(len(truth), dtype=torch.bool, device=truth.device)


def _average_precision(judged: Judged, positives: Tensor, ap_type: str) -> Tensor:
    """Average precision of each class (classes), of `positives` boxes each."""
    order = judged.score.argsort(descending=True, stable=True)
    order = order[judged.label[order].argsort(stable=True)]
    label, true = judged.label[order], judged.true[order].to(judged.score.dtype)
    inside = (label >= 0) & (label < len(positives))
    label, true = label[inside], true[inside]
    count = torch.bincount(label, minlength=len(positives))
    start = (count.cumsum(0) - count)[label]
    total = torch.cat((true.new_zeros(1), true.cumsum(0)))
    hits = total[1:] - total[start]
    precision = hits / (torch.arange(len(label), device=label.device) - start + 1)
    share = positives.to(true.dtype)[label]
    out = true.new_zeros(len(positives))
    if ap_type == "integral":
        return out.index_add_(0, label, precision * true / share)
    for step in range(_RECALLS):
        enough = hits / share >= step / (_RECALLS - 1)
        best = torch.zeros_like(out)
        out += best.scatter_reduce_(0, label[enough], precision[enough], "amax") / _RECALLS
    return out


def _mean(precision: Tensor, positives: Tensor, background: int) -> Tensor:
    """The mean (1) over the classes of which there are boxes, without the background."""
    seen = positives > 0
    if 0 <= background < len(seen):
        seen[background] = False
    mean = precision[seen].mean() if bool(seen.any()) else precision.new_zeros(())
    return mean.float().reshape(1)


def _earlier(judged: Judged, table: Tensor | None, lod: Levels) -> Judged:
    """`judged` after the detections of a state: rows of score and whether true, by class."""
    if table is None or not lod or not lod[-1].total:
        return judged
    return Judged(
        torch.cat((lod[-1].owners(table.device), judged.label)),
        torch.cat((table[:, 0].to(judged.score.dtype), judged.score)),
        torch.cat((table[:, 1] > 0, judged.true)),
    ).sorted()


@operator(
    "detection_map",
    outputs="AccumPosCount AccumTruePos AccumFalsePos MAP",
    uses=None,
    lod="",
    makes_lod="AccumTruePos AccumFalsePos",
    starts_without="PosCount TruePos FalsePos",
    infer=infer_by(_infer),
)
def detection_map(
    DetectRes: Tensor,
    Label: Tensor,
    HasState: Tensor | None = None,
    PosCount: Tensor | None = None,
    TruePos: Tensor | None = None,
    FalsePos: Tensor | None = None,
    *,
    lod_DetectRes: Levels = (),
    lod_Label: Levels = (),
    lod_TruePos: Levels = (),
    class_num: int,
    background_label: int = 0,
    overlap_threshold: float = 0.5,
    evaluate_difficult: bool = True,
    ap_type: str = "integral",
) -> tuple[Tensor, Tensor, Tensor, Tensor, Levels, Levels]:
    """MAP (1), float32: average precision over the classes of which there are boxes.

    DetectRes: label, score, box (rows, 6); Label: label, box (rows, 5) or label, difficult, box
    (rows, 6); a sequence per image, boxes in parts of the image. The accumulated counts of boxes
    (classes, 1) and tables (rows, 2) of score and whether true, or false, a sequence per class,
    are those of this batch, and of the state where HasState is not 0.
    """
    if ap_type not in _AP_TYPES:
        raise EnforceNotMet(f"detection_map: ap_type is {ap_type!r}; give one of {_AP_TYPES}")
    if not lod_DetectRes or not lod_Label:
        raise EnforceNotMet(
            "detection_map: DetectRes and Label need a LoD, one sequence per image; feed them as "
            "LoDTensors"
        )
    _require_rows(DetectRes, Label, lod_DetectRes[-1], lod_Label[-1])
    found, owner = _detections(DetectRes, lod_DetectRes[-1])
    images = owner, lod_Label[-1].owners(Label.device)
    judged = _judge(found, Label, images, overlap_threshold, evaluate_difficult)
    counted = Label if evaluate_difficult else Label[~_difficult(Label)]
    positives = torch.bincount(counted[:, 0].long(), minlength=class_num)[:class_num]
    if HasState is not None and bool(HasState.any()):
        positives = positives if PosCount is None else positives + PosCount.reshape(-1)
        judged = _earlier(judged, TruePos, lod_TruePos)
    mean = _mean(_average_precision(judged, positives, ap_type), positives, background_label)
    lod = (Offsets.of_lengths(torch.bincount(judged.label, minlength=class_num).tolist()),)
    true, false = judged.with_flags(judged.true), judged.with_flags(~judged.true)
    return positives.int()[:, None], true, false, mean, lod, lod


def _require_rows(found: Tensor, truth: Tensor, images: Offsets, of_truth: Offsets) -> None:
    """EnforceNotMet where rows are something else, or of other images."""
    if found.shape[1:] not in ((6,), (1,)):
        raise EnforceNotMet(
            f"DetectRes has to be label, score, box (rows, 6), but it is {list(found.shape)}"
        )
    if truth.shape[1:] not in ((6,), (5,)):
        raise EnforceNotMet(
            f"Label has to be label, difficult, box (rows, 6) or label, box (rows, 5), but it is "
            f"{list(truth.shape)}"
        )
    if found.shape[1] == 6 and len(images) != len(of_truth):
        raise EnforceNotMet(
            f"DetectRes is of {len(images)} images and Label of {len(of_truth)}: they must be the "
            "same"
        )


def _detections(rows: Tensor, offsets: Offsets) -> tuple[Tensor, Tensor]:
    """Detections (label, score, box) with falling score, and their images."""
    if rows.shape[1] != 6:  # what stands for no detections at all
        return rows.new_zeros((0, 6)), torch.zeros(0, dtype=torch.int64, device=rows.device)
    order = rows[:, 1].argsort(descending=True, stable=True)
    order = order[offsets.owners(rows.device)[order].argsort(stable=True)]
    return rows[order], offsets.owners(rows.device)[order]
