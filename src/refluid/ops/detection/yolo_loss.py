"""yolov3_loss: location, objectness and class of what YOLOv3 predicts, and its gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.ir.checks import shaped
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.bounded import Images, Matrix, Pairs, Positive
from refluid.ops.detection.shapes import infer_by
from refluid.ops.detection.yolo import centers, extents, per_anchor
from refluid.ops.detection.yolo_targets import (
    Grid,
    Targets,
    best_overlaps,
    class_targets,
    match_anchors,
    targets_of,
)
from refluid.ops.infer import InputSpec
from refluid.ops.registry import GradOp, defined, gradient, gradient_op, operator
from refluid.ops.required import require_equal, require_rows

_OBJECT, _IGNORED = 1e-5, -0.5


def _infer(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    shape, dtype = inputs["X"]
    _require_square(shape)
    _require_anchors(op.attrs["anchor_mask"], len(op.attrs["anchors"]) // 2)
    anchors = len(op.attrs["anchor_mask"])
    return {
        "Loss": (shape[:1], dtype),
        "ObjectnessMask": ((shape[0], anchors, *shape[2:]), VarType.INT32),
        "GTMatchMask": (inputs["GTBox"][0][:2], VarType.INT32),
    }


def _require_square(shape: Sequence[int]) -> None:
    height, width = shape[2:]
    if height != width and min(height, width) >= 0:
        raise EnforceNotMet(f"yolov3_loss: height and width of X {list(shape)} have to be equal")


def _require_boxes(X: Tensor, boxes: Tensor, labels: Tensor, scores: Tensor | None) -> None:
    """EnforceNotMet unless each image has boxes, and each box a label and a score."""
    require_rows("GTBox", boxes, "X", len(X))
    require_equal("GTLabel", labels, "GTBox without its last dimension", boxes.shape[:2])
    if scores is not None:
        require_equal("GTScore", scores, "GTBox without its last dimension", boxes.shape[:2])


def _require_anchors(mask: Sequence[int], count: int) -> None:
    if any(not 0 <= one < count for one in mask):
        raise EnforceNotMet(
            f"anchor_mask {list(mask)} has to name some of the {count} anchors, counted from 0"
        )


def _grid(X: Tensor, anchors: Sequence[int], mask: Sequence[int], downsample: int) -> Grid:
    sizes = torch.tensor(anchors, device=X.device).reshape(-1, 2)
    return Grid(X.shape[2], X.shape[3], sizes, mask, downsample)


def _objectness(raw: Tensor, overlap: Tensor, ignore: float, targets: Targets) -> Tensor:
    """(N, A, H, W): the score of the last box of a cell; else -1 above `ignore`, 0 below."""
    mask = torch.where(overlap > ignore, -1.0, 0.0).to(raw.dtype).reshape(-1)
    last = targets.last(raw.shape[0] * raw.shape[1], raw.shape[3] * raw.shape[4])
    mask[last >= 0] = targets.weight[last[last >= 0]]
    return mask.reshape(overlap.shape)


@operator(
    "yolov3_loss",
    outputs="Loss ObjectnessMask GTMatchMask",
    uses="X GTBox GTLabel GTScore ObjectnessMask GTMatchMask",
    lod="",
    infer=infer_by(_infer),
)
def yolov3_loss(
    X: Images,
    GTBox: Annotated[Tensor, shaped(None, None, 4)],
    GTLabel: Matrix,
    GTScore: Tensor | None = None,
    *,
    class_num: Positive,
    anchors: Pairs = (),
    anchor_mask: Sequence[int] = (),
    downsample_ratio: int = 32,
    ignore_thresh: float = 0.7,
    use_label_smooth: bool = True,
    scale_x_y: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss (N) of X (N, masks * (5 + classes), H, W) for boxes GTBox (N, B, 4).

    Boxes are center and size in parts of the image, filled up with zeros; GTLabel int32 and
    GTScore (N, B). A box trains the cell of its center and the anchor most like it, if that is
    one of `anchor_mask`. Other predictions are trained to be no object, unless they overlap a
    box by more than `ignore_thresh`.
    """
    _require_square(X.shape)
    _require_boxes(X, GTBox, GTLabel, GTScore)
    grid = _grid(X, anchors, anchor_mask, downsample_ratio)
    raw = per_anchor(X, len(anchor_mask), class_num, "yolov3_loss")
    match = match_anchors(GTBox, grid)
    classes = class_targets(GTLabel, class_num, use_label_smooth, X)
    targets = targets_of(match, GTBox, GTScore, classes, grid)
    box = torch.stack((*centers(raw, scale_x_y), *extents(raw, grid.own, downsample_ratio)))
    overlap = best_overlaps(box.flatten(2), GTBox).reshape(box.shape[1:])
    mask = _objectness(raw, overlap, ignore_thresh, targets)

    sure = raw[:, :, 4]
    objects = F.binary_cross_entropy_with_logits(
        sure, (mask > _OBJECT).to(X.dtype), reduction="none"
    )
    weight = torch.where(mask > _OBJECT, mask, (mask > _IGNORED).to(X.dtype))
    found = raw.reshape(-1)[targets.numbers(raw)]
    location = _entropy(found[:, :2], targets.xy) + (found[:, 2:4] - targets.wh).abs().sum(1)
    kinds = _entropy(found[:, 5:], targets.classes)
    loss = (objects * weight).sum((1, 2, 3))
    loss.index_add_(0, targets.image, location * targets.scale + kinds * targets.weight)
    return loss, mask, match.int()


def _entropy(logits: Tensor, wanted: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").sum(1)


def _of_x_only(op: Operator) -> list[GradOp]:
    """The gradient operator; ground truth has no gradient, even where it was computed."""
    backward = defined(op.type + "_grad")
    made = gradient_op(op, backward.type, [slot.name for slot in backward.inputs])
    kept = {slot: names if slot == "X" + GRAD else [] for slot, names in made.outputs.items()}
    return [replace(made, outputs=kept)]


@gradient("yolov3_loss", maker=_of_x_only)
def yolov3_loss_grad(
    X: Tensor,
    GTBox: Tensor,
    GTLabel: Tensor,
    GTScore: Tensor | None,
    ObjectnessMask: Tensor,
    GTMatchMask: Tensor,
    d_Loss: Tensor,
    *,
    class_num: int,
    anchors: Sequence[int] = (),
    anchor_mask: Sequence[int] = (),
    downsample_ratio: int = 32,
    use_label_smooth: bool = True,
) -> tuple[Tensor, None, None, None]:
    """d_X; of several boxes that train one prediction the last one's location and class."""
    grid = _grid(X, anchors, anchor_mask, downsample_ratio)
    raw = per_anchor(X, len(anchor_mask), class_num, "yolov3_loss_grad")
    classes = class_targets(GTLabel, class_num, use_label_smooth, X)
    targets = targets_of(GTMatchMask, GTBox, GTScore, classes, grid)
    numbers = targets.numbers(raw)
    found = raw.reshape(-1)[numbers]
    chance = torch.sigmoid(found)
    scale, weight = targets.scale[:, None], targets.weight[:, None]
    parts = (
        (chance[:, :2] - targets.xy) * scale,
        torch.sign(found[:, 2:4] - targets.wh) * scale,
        torch.zeros_like(scale),
        (chance[:, 5:] - targets.classes) * weight,
    )
    last = targets.last(raw.shape[0] * raw.shape[1], raw.shape[3] * raw.shape[4])
    last = last[last >= 0]
    out = raw.new_zeros(raw.shape)
    out.view(-1)[numbers[last]] = torch.cat(parts, 1)[last]
    sure = torch.sigmoid(raw[:, :, 4])
    out[:, :, 4] = torch.where(
        ObjectnessMask > _OBJECT,
        (sure - 1) * ObjectnessMask,
        torch.where(ObjectnessMask > _IGNORED, sure, 0.0),
    )
    out *= d_Loss.reshape(-1, 1, 1, 1, 1)
    return out.reshape(X.shape), None, None, None
