"""YOLOv3, and the focal loss of other one-stage detectors."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.core.former import formerly_called
from refluid.core.whole import is_whole
from refluid.ir.variable import Variable

__all__ = ["sigmoid_focal_loss", "yolo_box", "yolov3_loss"]


@formerly_called(gtbox="gt_box", gtlabel="gt_label")
def yolov3_loss(
    x: Variable,
    gt_box: Variable,
    gt_label: Variable,
    anchors: Sequence[int],
    anchor_mask: Sequence[int],
    class_num: int,
    ignore_thresh: float,
    downsample_ratio: int,
    gt_score: Variable | None = None,
    use_label_smooth: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
) -> Variable:
    """The loss (N) of predictions (N, masks * (5 + classes), H, W).

    gt_box: (N, B, 4), center, width and height in parts of the image, filled up with zeros;
    gt_label int32 and gt_score (N, B). anchors: widths and heights in turn, in pixels of the
    network's input, which is `downsample_ratio` times the map; `anchor_mask` says which are this
    map's. Predictions that overlap a box by more than `ignore_thresh` are not trained to be none.

    Raises TypeError for anchors or masks that are no lists, or a class_num that is no int.
    """
    for what, given in {"anchors": anchors, "anchor_mask": anchor_mask}.items():
        if not isinstance(given, list | tuple):
            raise TypeError(f"Attr {what} of yolov3_loss must be list or tuple, not {given!r}")
    _require_int("yolov3_loss", class_num)
    inputs = {"X": x, "GTBox": gt_box, "GTLabel": gt_label, "GTScore": gt_score}
    attrs = {
        "anchors": list(anchors),
        "anchor_mask": list(anchor_mask),
        "class_num": class_num,
        "ignore_thresh": ignore_thresh,
        "downsample_ratio": downsample_ratio,
        "use_label_smooth": use_label_smooth,
        "scale_x_y": scale_x_y,
    }
    kinds = {"Loss": x.dtype, "ObjectnessMask": VarType.INT32, "GTMatchMask": VarType.INT32}
    return op("yolov3_loss", inputs, attrs, kinds, name=name)[0]


def yolo_box(
    x: Variable,
    img_size: Variable,
    anchors: Sequence[int],
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
) -> tuple[Variable, Variable]:
    """Boxes (N, anchors * H * W, 4) in pixels and scores (.., classes) of what YOLOv3 predicts.

    x: (N, anchors * (5 + classes), H, W). img_size: int32 (N, 2), height and width of the images.
    Both are 0 where the confidence is below `conf_thresh`. clip_bbox: boxes end at the borders.

    Raises TypeError for anchors that are no list, or a class_num that is no int.
    """
    if not isinstance(anchors, list | tuple):
        raise TypeError(f"Attr anchors of yolo_box must be list or tuple, not {anchors!r}")
    _require_int("yolo_box", class_num)
    attrs = {
        "anchors": list(anchors),
        "class_num": class_num,
        "conf_thresh": conf_thresh,
        "downsample_ratio": downsample_ratio,
        "clip_bbox": clip_bbox,
        "scale_x_y": scale_x_y,
    }
    kinds = dict.fromkeys(("Boxes", "Scores"), x.dtype)
    boxes, scores = op("yolo_box", {"X": x, "ImgSize": img_size}, attrs, kinds, name=name)
    return boxes, scores


def _require_int(where: str, class_num: object) -> None:
    if not is_whole(class_num):
        raise TypeError(f"Attr class_num of {where} must be an integer, not {class_num!r}")


def sigmoid_focal_loss(
    x: Variable, label: Variable, fg_num: Variable, gamma: float = 2.0, alpha: float = 0.25
) -> Variable:
    """The focal loss (N, C) of logits (N, C), divided by fg_num, int32 (1).

    label: int32 (N, 1), from 1 for the class of column 0; 0 is background, -1 gives no loss.
    gamma: how much less easy examples count; alpha: the weight of positives.
    """
    inputs = {"X": x, "Label": label, "FgNum": fg_num}
    return op("sigmoid_focal_loss", inputs, {"gamma": gamma, "alpha": alpha})
