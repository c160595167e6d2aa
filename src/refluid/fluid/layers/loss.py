"""The layers of `fluid.layers.loss`, which live in one file per topic."""

from refluid.fluid.functions.loss.ctc import warpctc
from refluid.fluid.functions.loss.losses import (
    bpr_loss,
    cross_entropy,
    huber_loss,
    kldiv_loss,
    margin_rank_loss,
    mse_loss,
    rank_loss,
    sigmoid_cross_entropy_with_logits,
    softmax_with_cross_entropy,
    square_error_cost,
    teacher_student_sigmoid_loss,
)
from refluid.fluid.functions.loss.metric_losses import center_loss, npair_loss
from refluid.fluid.functions.loss.sampled import hsigmoid, nce, sampled_softmax_with_cross_entropy
from refluid.fluid.functions.metric.editing import edit_distance

__all__ = [
    "bpr_loss",
    "center_loss",
    "cross_entropy",
    "edit_distance",
    "hsigmoid",
    "huber_loss",
    "kldiv_loss",
    "margin_rank_loss",
    "mse_loss",
    "nce",
    "npair_loss",
    "rank_loss",
    "sampled_softmax_with_cross_entropy",
    "sigmoid_cross_entropy_with_logits",
    "softmax_with_cross_entropy",
    "square_error_cost",
    "teacher_student_sigmoid_loss",
    "warpctc",
]
