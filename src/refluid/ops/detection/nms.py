"""multiclass_nms(2): per class the boxes that don't overlap better ones, and the best of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.checks import rank
from refluid.ir.operator import Operator
from refluid.ops.bounded import Outlines
from refluid.ops.detection.overlaps import overlap_of
from refluid.ops.detection.shapes import ROWS, infer_by
from refluid.ops.detection.suppression import Candidates, suppress
from refluid.ops.infer import Infer, InputSpec
from refluid.ops.registry import OperatorDef, operator


def _shapes(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    """What Fluid writes down: as many rows as an image has boxes, if that is known."""
    (_, boxes, width), dtype = inputs["BBoxes"]
    rows = boxes if len(inputs["Scores"][0]) == 3 else ROWS
    return {"Out": ((rows, width + 2), dtype), "Index": ((rows, 1), VarType.INT64)}


def detections(level: int) -> Infer:
    """A rule for operators whose Out holds detections, as sequences where `level` is 1."""
    shapes = infer_by(_shapes)

    def infer(definition: OperatorDef, op: Operator) -> None:
        shapes(definition, op)
        for name in op.output_arg_names:
            op.block.var_recursive(name).lod_level = level

    return infer


def _images(Scores: Tensor, lod: Levels) -> int:
    if Scores.dim() == 3:
        return Scores.shape[0]
    if not lod:
        raise EnforceNotMet(
            "multiclass_nms: BBoxes carries no LoD, so the image of a box is unknown; feed boxes "
            "and scores as LoDTensors, or scores of shape (images, classes, boxes)"
        )
    return len(lod[-1])


def require_same_boxes(BBoxes: Tensor, Scores: Tensor) -> None:
    """EnforceNotMet unless there is a score of each class for each box of each image."""
    if BBoxes.shape[:2] != (Scores.shape[0], Scores.shape[2]):
        raise EnforceNotMet(
            f"BBoxes {list(BBoxes.shape)} and Scores {list(Scores.shape)} have to be of the same "
            "images and boxes: (N, M, 4) and (N, classes, M)"
        )


def pick(
    BBoxes: Tensor, Scores: Tensor, lod: Levels, background: int, threshold: float, most: int = -1
) -> Candidates:
    """Boxes of a score above `threshold`, by image and class but `background`.

    Scores (N, C, M) of boxes (N, M, D), or (rows, C) of boxes (rows, C, D) with a sequence of
    rows per image. most: how many of each image and class, the best ones; negative for all.
    """
    if Scores.dim() == 2 and BBoxes.shape[:2] != Scores.shape:
        raise EnforceNotMet(
            f"BBoxes {list(BBoxes.shape)} and Scores {list(Scores.shape)} have to be of the same "
            "rows and classes: (rows, classes, 4) and (rows, classes)"
        )
    if Scores.dim() == 3:
        require_same_boxes(BBoxes, Scores)
    if Scores.dim() == 3 and 0 < most < Scores.shape[2]:
        found = _pick_leading(BBoxes, Scores, background, threshold, most)
        if found is not None:
            return found
    above = Scores > threshold
    if 0 <= background < Scores.shape[1]:
        above[:, background] = False
    if Scores.dim() == 3:
        image, label, place = above.nonzero(as_tuple=True)
        index = image * Scores.shape[2] + place
    else:
        row, label = above.nonzero(as_tuple=True)
        image, index = lod[-1].owners(Scores.device)[row], row * Scores.shape[1] + label
    boxes = BBoxes.reshape(-1, BBoxes.shape[2])
    found = Candidates(image * Scores.shape[1] + label, Scores[above], boxes[index], index)
    return found.ranked().best(most)


def _pick_leading(
    BBoxes: Tensor, Scores: Tensor, background: int, threshold: float, most: int
) -> Candidates | None:
    """`pick` without sorting all; None where equal scores leave open which box comes first."""
    scores, places = torch.topk(Scores, most + 1, 2)
    some = scores > threshold
    if 0 <= background < Scores.shape[1]:
        some[:, background] = False
    if bool((some[..., 1:] & (scores[..., 1:] == scores[..., :-1])).any()):
        return None
    image, label, rank = some[..., :most].nonzero(as_tuple=True)
    index = image * Scores.shape[2] + places[image, label, rank]
    boxes = BBoxes.reshape(-1, BBoxes.shape[2])[index]
    return Candidates(image * Scores.shape[1] + label, scores[image, label, rank], boxes, index)


def rows_of(found: Candidates, classes: int, images: int) -> tuple[Tensor, Tensor, Levels]:
    """Detections (rows, 2 + D) of label, score and box; their indices (rows, 1); the LoD."""
    label = (found.group % classes).to(found.score.dtype)
    out = torch.cat((label[:, None], found.score[:, None], found.box), 1)
    counts = torch.bincount(found.group // classes, minlength=images).tolist()
    return out, found.index[:, None].int(), (Offsets.of_lengths(counts),)


def or_nothing(out: Tensor, lod: Levels) -> tuple[Tensor, Levels]:
    """Detections; where there are none at all, one row that holds -1."""
    return (out, lod) if len(out) else (out.new_full((1, 1), -1), (Offsets((0, 1)),))


_DOC = """Detections (rows, 2 + D): label, score, box; a sequence per image, sorted by label.

    Per class but `background_label`: the boxes of a score above `score_threshold`, the best
    `nms_top_k` of them, those that don't overlap better ones by more than `nms_threshold`. Then
    the best `keep_top_k` of the image. Boxes as of `pick`; 8 and more numbers are polygons.
"""


def _define(op_type: str, outputs: str, indexed: bool) -> None:
    def body(
        BBoxes: Outlines,
        Scores: Annotated[Tensor, rank(2, 3)],
        *,
        lod_BBoxes: Levels = (),
        background_label: int = 0,
        score_threshold: float,
        nms_top_k: int,
        nms_threshold: float = 0.3,
        nms_eta: float = 1.0,
        keep_top_k: int,
        normalized: bool = True,
    ) -> tuple[Any, ...]:
        classes = Scores.shape[1]
        images = _images(Scores, lod_BBoxes)
        found = pick(BBoxes, Scores, lod_BBoxes, background_label, score_threshold, nms_top_k)
        overlap = overlap_of(BBoxes.shape[2], normalized)
        found = suppress(found, overlap, nms_threshold, nms_eta)
        found = found.best_of_image(keep_top_k, classes)
        if Scores.dim() == 2:
            found = found.by_index()
        out, index, lod = rows_of(found, classes, images)
        return (out, index, lod, lod) if indexed else or_nothing(out, lod)

    body.__name__, body.__doc__ = op_type, _DOC
    operator(op_type, outputs=outputs, uses=None, lod="", makes_lod=outputs, infer=detections(1))(
        body
    )


_define("multiclass_nms", "Out", False)
_define("multiclass_nms2", "Out Index", True)
