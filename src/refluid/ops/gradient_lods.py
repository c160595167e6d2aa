"""Whose LoD a gradient has: that of its variable, that of the gradient it is made from, or none.

In Fluid every gradient operator decides that for itself. Recorded programs declare it (`lod_level`)
and recorded runs show it; where neither says anything, paddle 2.6.2 was asked, or it is the
variable's.
"""

from __future__ import annotations

from enum import Enum


class Origin(Enum):
    """Where the LoD of a gradient comes from."""

    VARIABLE = "variable"
    GIVEN = "given"
    NONE = "none"


_OF_GIVEN = """
    abs acos asin atan brelu ceil cos dropout elu exp floor hard_shrink hard_sigmoid hard_swish
    leaky_relu log log1p logsigmoid pow reciprocal relu relu6 round rsqrt sigmoid sin soft_relu
    softplus softshrink softsign sqrt square stanh swish tanh tanh_shrink thresholded_relu
"""
_WITHOUT = """
    add_position_encoding affine_channel batch_norm bicubic_interp bilinear_interp
    bilinear_tensor_product conv2d conv2d_transpose conv3d conv3d_transpose cos_sim crop
    crop_tensor data_norm depthwise_conv2d depthwise_conv2d_transpose expand expand_as fsp
    fused_batch_norm_act fused_bn_add_activation group_norm gru gru_unit huber_loss im2sequence
    inplace_abn instance_norm log_softmax lookup_table lookup_table_v2 lrn lstm lstmp matmul
    max_pool2d_with_index max_pool3d_with_index mish multiplex nearest_interp nll_loss pad pool2d
    pool3d rank_loss reshape row_conv sample_logits scatter scatter_nd_add selu sequence_scatter
    shuffle_channel slice smooth_l1_loss softmax softmax_with_cross_entropy spectral_norm stack
    sync_batch_norm top_k trilinear_interp unstack
"""
_GIVEN, _NONE = frozenset(_OF_GIVEN.split()), frozenset(_WITHOUT.split())
# Their gradients have a LoD when they run, but declare none.
_UNDECLARED = frozenset({"mul", "sequence_softmax"})


def origin(op_type: str, *, declared: bool = False) -> Origin:
    """Of the gradients that a gradient operator (`relu_grad`) makes, or declares."""
    forward = op_type.removesuffix("_grad")
    if forward in _GIVEN:
        return Origin.GIVEN
    if forward in _NONE or (declared and forward in _UNDECLARED):
        return Origin.NONE
    return Origin.VARIABLE
