# ruff: noqa: F403
"""The layers of `fluid.layers.nn`, which live in one file per topic."""

from refluid.fluid.layers import algebra, arranging, clicks, python_calls, resizing, vision
from refluid.fluid.layers.activation import (
    brelu,
    elu,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    log,
    log_softmax,
    maxout,
    mish,
    pow,
    prelu,
    relu,
    relu6,
    selu,
    sign,
    soft_relu,
    softmax,
    stanh,
    swish,
)
from refluid.fluid.layers.algebra import *
from refluid.fluid.layers.arranging import *
from refluid.fluid.layers.assignment import sum
from refluid.fluid.layers.beams import gather_tree
from refluid.fluid.layers.clicks import *
from refluid.fluid.layers.comparison import elementwise_equal
from refluid.fluid.layers.convolution import conv2d, conv2d_transpose, conv3d, conv3d_transpose
from refluid.fluid.layers.counting import autoincreased_step_counter
from refluid.fluid.layers.creation import rank
from refluid.fluid.layers.crf import chunk_eval, crf_decoding, linear_chain_crf
from refluid.fluid.layers.ctc import ctc_greedy_decoder
from refluid.fluid.layers.deformable import deformable_conv
from refluid.fluid.layers.elementwise import (
    clip,
    clip_by_norm,
    elementwise_add,
    elementwise_div,
    elementwise_floordiv,
    elementwise_max,
    elementwise_min,
    elementwise_mod,
    elementwise_mul,
    elementwise_pow,
    elementwise_sub,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    scale,
)
from refluid.fluid.layers.embedding import embedding, one_hot
from refluid.fluid.layers.joining import split, stack, unstack
from refluid.fluid.layers.labels import label_smooth
from refluid.fluid.layers.linear import fc, matmul, mul
from refluid.fluid.layers.loss import log_loss, smooth_l1
from refluid.fluid.layers.metric_losses import dice_loss
from refluid.fluid.layers.metric_op import mean_iou
from refluid.fluid.layers.normalization import (
    batch_norm,
    group_norm,
    inplace_abn,
    instance_norm,
    l2_normalize,
    layer_norm,
    lrn,
    spectral_norm,
)
from refluid.fluid.layers.padding import crop, crop_tensor, pad, pad2d, pad_constant_like
from refluid.fluid.layers.pooling import adaptive_pool2d, adaptive_pool3d, pool2d, pool3d
from refluid.fluid.layers.python_calls import *
from refluid.fluid.layers.random import (
    dropout,
    gaussian_random,
    gaussian_random_batch_size_like,
    randint,
    randn,
    randperm,
    uniform_random,
    uniform_random_batch_size_like,
)
from refluid.fluid.layers.reduction import (
    mean,
    reduce_all,
    reduce_any,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
)
from refluid.fluid.layers.regions import (
    deformable_roi_pooling,
    prroi_pool,
    psroi_pool,
    roi_align,
    roi_pool,
)
from refluid.fluid.layers.resizing import *
from refluid.fluid.layers.sampled import sampling_id
from refluid.fluid.layers.selection import topk, where
from refluid.fluid.layers.sequences import im2sequence, lod_append, lod_reset, row_conv
from refluid.fluid.layers.shaping import (
    expand,
    expand_as,
    flatten,
    reshape,
    shape,
    size,
    squeeze,
    transpose,
    unsqueeze,
)
from refluid.fluid.layers.sharding import shard_index
from refluid.fluid.layers.slicing import gather, gather_nd, scatter, slice, strided_slice
from refluid.fluid.layers.sparse_rows import get_tensor_from_selected_rows, merge_selected_rows
from refluid.fluid.layers.vision import *

__all__ = [
    "adaptive_pool2d",
    "adaptive_pool3d",
    "autoincreased_step_counter",
    "batch_norm",
    "brelu",
    "chunk_eval",
    "clip",
    "clip_by_norm",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "crf_decoding",
    "crop",
    "crop_tensor",
    "ctc_greedy_decoder",
    "deformable_conv",
    "deformable_roi_pooling",
    "dice_loss",
    "dropout",
    "elementwise_add",
    "elementwise_div",
    "elementwise_equal",
    "elementwise_floordiv",
    "elementwise_max",
    "elementwise_min",
    "elementwise_mod",
    "elementwise_mul",
    "elementwise_pow",
    "elementwise_sub",
    "elu",
    "embedding",
    "expand",
    "expand_as",
    "fc",
    "flatten",
    "gather",
    "gather_nd",
    "gather_tree",
    "gaussian_random",
    "gaussian_random_batch_size_like",
    "get_tensor_from_selected_rows",
    "group_norm",
    "hard_sigmoid",
    "hard_swish",
    "im2sequence",
    "inplace_abn",
    "instance_norm",
    "l2_normalize",
    "label_smooth",
    "layer_norm",
    "leaky_relu",
    "linear_chain_crf",
    "lod_append",
    "lod_reset",
    "log",
    "log_loss",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lrn",
    "matmul",
    "maxout",
    "mean",
    "mean_iou",
    "merge_selected_rows",
    "mish",
    "mul",
    "one_hot",
    "pad",
    "pad2d",
    "pad_constant_like",
    "pool2d",
    "pool3d",
    "pow",
    "prelu",
    "prroi_pool",
    "psroi_pool",
    "randint",
    "randn",
    "randperm",
    "rank",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "relu",
    "relu6",
    "reshape",
    "roi_align",
    "roi_pool",
    "row_conv",
    "sampling_id",
    "scale",
    "scatter",
    "selu",
    "shape",
    "shard_index",
    "sign",
    "size",
    "slice",
    "smooth_l1",
    "soft_relu",
    "softmax",
    "spectral_norm",
    "split",
    "squeeze",
    "stack",
    "stanh",
    "strided_slice",
    "sum",
    "swish",
    "topk",
    "transpose",
    "uniform_random",
    "uniform_random_batch_size_like",
    "unsqueeze",
    "unstack",
    "where",
]
__all__ += algebra.__all__
__all__ += arranging.__all__
__all__ += clicks.__all__
__all__ += python_calls.__all__
__all__ += resizing.__all__
__all__ += vision.__all__
