"""SSD: the loss of its predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.fluid.functions.detection.boxes import box_coder, iou_similarity
from refluid.fluid.functions.detection.matching import bipartite_match, target_assign
from refluid.fluid.functions.loss.losses import smooth_l1, softmax_with_cross_entropy
from refluid.fluid.functions.math.reduction import reduce_sum
from refluid.fluid.functions.tensor.assignment import cast
from refluid.fluid.functions.tensor.shaping import flatten, reshape, shape
from refluid.fluid.functions.tensor.slicing import slice
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

__all__ = ["ssd_loss"]

_MINING = ("neg_pos_ratio", "neg_dist_threshold", "mining_type", "sample_size")


def _rows(x: Variable) -> Variable:
    """(N, P, K) -> (N * P, K)."""
    return flatten(x, axis=2)


def _fixed(x: Variable) -> Variable:
    """The variable, which no gradient goes through."""
    x.stop_gradient = True
    return x


def ssd_loss(
    location: Variable,
    confidence: Variable,
    gt_box: Variable,
    gt_label: Variable,
    prior_box: Variable,
    prior_box_var: Variable | Sequence[float] | None = None,
    background_label: int = 0,
    overlap_threshold: float = 0.5,
    neg_pos_ratio: float = 3.0,
    neg_overlap: float = 0.5,
    loc_loss_weight: float = 1.0,
    conf_loss_weight: float = 1.0,
    match_type: str = "per_prediction",
    mining_type: str = "max_negative",
    normalize: bool = True,
    sample_size: int | None = None,
) -> Variable:
    """The loss (N, 1) of locations (N, P, 4) and confidences (N, P, classes) of P prior boxes.

    gt_box (rows, 4) and gt_label (rows, 1) are sequences per image; prior_box (P, 4) with
    variances of the same shape. Priors are matched with ground truth as `bipartite_match` does
    by overlap; of the others that overlap less than `neg_overlap` those of the highest loss are
    trained as background, `neg_pos_ratio` times as many. The loss is the weighted sum of
    smooth_l1 of locations and cross entropy of classes, divided by the number of matches if
    `normalize`.

    Raises ValueError for a mining_type other than 'max_negative'.
    """
    if mining_type != "max_negative":
        raise ValueError("Only support mining_type == max_negative now.")
    helper = LayerHelper("ssd_loss")
    conf_shape = shape(confidence)
    overlap = iou_similarity(x=gt_box, y=prior_box)
    matched, distance = bipartite_match(overlap, match_type, overlap_threshold)
    gt_label = _fixed(reshape(gt_label, shape=[0] * (len(gt_label.shape) - 1) + [-1, 1]))
    wanted, _ = target_assign(gt_label, matched, mismatch_value=background_label)
    confidence = _rows(confidence)
    loss = softmax_with_cross_entropy(confidence, _fixed(_rows(cast(wanted, "int64"))))
    by_image = slice(conf_shape, axes=[0], starts=[0], ends=[2])
    loss = _fixed(reshape(loss, shape=(-1, 0), actual_shape=by_image))
    attrs = dict(zip(_MINING, (neg_pos_ratio, neg_overlap, mining_type, sample_size), strict=True))
    mined = _mine(helper, loss, matched, distance, attrs)
    wanted = box_coder(prior_box, prior_box_var, gt_box)
    parts = _losses(location, confidence, wanted, gt_label, mined, background_label)
    loss = conf_loss_weight * parts[0] + loc_loss_weight * parts[1]
    loss = reshape(loss, shape=(-1, 0), actual_shape=by_image)
    loss = reduce_sum(loss, dim=1, keep_dim=True)
    return loss / reduce_sum(parts[2]) if normalize else loss


def _mine(
    helper: LayerHelper, loss: Variable, matched: Variable, distance: Variable, attrs: Any
) -> tuple[Variable, ...]:
    """The negative priors to train, and the matches that are left."""
    inputs = {"ClsLoss": loss, "MatchIndices": matched, "MatchDist": distance}
    kinds = {"NegIndices": VarType.INT32, "UpdatedMatchIndices": matched.dtype}
    return op("mine_hard_examples", inputs, attrs, kinds, layer=helper)


def _losses(
    location: Variable,
    confidence: Variable,
    encoded: Variable,
    label: Variable,
    mined: tuple[Variable, ...],
    background: int,
) -> tuple[Variable, Variable, Variable]:
    """Per prior (N * P, 1) the losses of class and location, and the weight of the latter."""
    negative, matched = mined
    place, place_weight = target_assign(encoded, matched, mismatch_value=background)
    kind, kind_weight = target_assign(label, matched, negative, mismatch_value=background)
    conf_loss = softmax_with_cross_entropy(confidence, _fixed(cast(_rows(kind), "int64")))
    conf_loss = conf_loss * _fixed(_rows(kind_weight))
    loc_loss = smooth_l1(_rows(location), _fixed(_rows(place)))
    place_weight = _fixed(_rows(place_weight))
    return conf_loss, loc_loss * place_weight, place_weight
