"""The layers of `fluid.layers.nn`, which live in one file per topic."""

from importlib import import_module
from typing import Any

from refluid.fluid.functions.detection.deformable_conv import deformable_conv
from refluid.fluid.functions.detection.rois import (
    deformable_roi_pooling,
    prroi_pool,
    psroi_pool,
    roi_align,
    roi_pool,
)
from refluid.fluid.functions.io.python_functions import py_func
from refluid.fluid.functions.loss.crf import crf_decoding, linear_chain_crf
from refluid.fluid.functions.loss.ctc import ctc_greedy_decoder
from refluid.fluid.functions.loss.labels import label_smooth
from refluid.fluid.functions.loss.losses import log_loss, smooth_l1
from refluid.fluid.functions.loss.metric_losses import dice_loss
from refluid.fluid.functions.loss.sampled import sampling_id
from refluid.fluid.functions.math.comparison import elementwise_equal
from refluid.fluid.functions.math.elementwise import (
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
from refluid.fluid.functions.math.linear import fc, matmul, mul
from refluid.fluid.functions.math.matrices import fsp_matrix
from refluid.fluid.functions.math.ordering import nonzero, topk, where
from refluid.fluid.functions.math.products import (
    addcmul,
    addmm,
    allclose,
    bilinear_tensor_product,
    bmm,
    clamp,
    cos_sim,
    cross,
    dist,
    dot,
    l2_normalize,
    log1p,
    logsumexp,
)
from refluid.fluid.functions.math.reduction import (
    mean,
    reduce_all,
    reduce_any,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
    sum,
)
from refluid.fluid.functions.math.unary import sign
from refluid.fluid.functions.metric.accuracy import mean_iou
from refluid.fluid.functions.metric.chunks import chunk_eval
from refluid.fluid.functions.nn.activation import (
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
    soft_relu,
    softmax,
    stanh,
    swish,
)
from refluid.fluid.functions.nn.clicks import (
    continuous_value_model,
    data_norm,
    filter_by_instag,
    hash,
)
from refluid.fluid.functions.nn.convolution import (
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
)
from refluid.fluid.functions.nn.dropout import dropout
from refluid.fluid.functions.nn.embedding import embedding, one_hot
from refluid.fluid.functions.nn.interpolation import (
    image_resize,
    image_resize_short,
    interpolate,
    resize_bilinear,
    resize_nearest,
    resize_trilinear,
)
from refluid.fluid.functions.nn.pooling import adaptive_pool2d, adaptive_pool3d, pool2d, pool3d
from refluid.fluid.functions.nn.vision import (
    add_position_encoding,
    affine_grid,
    grid_sampler,
    pixel_shuffle,
    shuffle_channel,
    similarity_focus,
    space_to_depth,
    temporal_shift,
    unfold,
)
from refluid.fluid.functions.norm.channel_norms import affine_channel, lrn
from refluid.fluid.functions.norm.normalization import (
    batch_norm,
    group_norm,
    inplace_abn,
    instance_norm,
    layer_norm,
    spectral_norm,
)
from refluid.fluid.functions.rnn.beam import gather_tree
from refluid.fluid.functions.sequence.sequences import im2sequence, lod_append, lod_reset, row_conv
from refluid.fluid.functions.sparse.selected_rows import (
    get_tensor_from_selected_rows,
    merge_selected_rows,
)
from refluid.fluid.functions.tensor.arranging import (
    diag_embed,
    flip,
    index_sample,
    index_select,
    meshgrid,
    multiplex,
    roll,
    scatter_nd,
    scatter_nd_add,
    unique,
    unique_with_counts,
)
from refluid.fluid.functions.tensor.counting import autoincreased_step_counter
from refluid.fluid.functions.tensor.creation import rank
from refluid.fluid.functions.tensor.joining import split, stack, unstack
from refluid.fluid.functions.tensor.padding import crop, crop_tensor, pad, pad2d, pad_constant_like
from refluid.fluid.functions.tensor.random import (
    gaussian_random,
    gaussian_random_batch_size_like,
    randint,
    randn,
    random_crop,
    randperm,
    uniform_random,
    uniform_random_batch_size_like,
)
from refluid.fluid.functions.tensor.shaping import (
    expand,
    expand_as,
    flatten,
    reshape,
    shape,
    size,
    squeeze,
    t,
    transpose,
    unsqueeze,
)
from refluid.fluid.functions.tensor.sharding import shard_index
from refluid.fluid.functions.tensor.slicing import gather, gather_nd, scatter, slice, strided_slice

# fmt: off
__all__ = [
    "adaptive_pool2d", "adaptive_pool3d", "add_position_encoding", "addcmul", "addmm",
    "affine_channel", "affine_grid", "allclose", "autoincreased_step_counter", "batch_norm",
    "bilinear_tensor_product", "bmm", "brelu", "chunk_eval", "clamp", "clip", "clip_by_norm",
    "continuous_value_model", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose",
    "cos_sim", "crf_decoding", "crop", "crop_tensor", "cross", "ctc_greedy_decoder",
    "data_norm", "deformable_conv", "deformable_roi_pooling", "diag_embed", "dice_loss", "dist",
    "dot", "dropout", "elementwise_add", "elementwise_div", "elementwise_equal",
    "elementwise_floordiv", "elementwise_max", "elementwise_min", "elementwise_mod",
    "elementwise_mul", "elementwise_pow", "elementwise_sub", "elu", "embedding", "expand",
    "expand_as", "fc", "filter_by_instag", "flatten", "flip", "fsp_matrix", "gather",
    "gather_nd", "gather_tree", "gaussian_random", "gaussian_random_batch_size_like",
    "get_tensor_from_selected_rows", "grid_sampler", "group_norm", "hard_sigmoid", "hard_swish",
    "hash", "im2sequence", "image_resize", "image_resize_short", "index_sample", "index_select",
    "inplace_abn", "instance_norm", "interpolate", "l2_normalize", "label_smooth", "layer_norm",
    "leaky_relu", "linear_chain_crf", "lod_append", "lod_reset", "log", "log1p", "log_loss",
    "log_softmax", "logical_and", "logical_not", "logical_or", "logical_xor", "logsumexp",
    "lrn", "matmul", "maxout", "mean", "mean_iou", "merge_selected_rows", "meshgrid", "mish",
    "mul", "multiplex", "nonzero", "one_hot", "pad", "pad2d", "pad_constant_like",
    "pixel_shuffle", "pool2d", "pool3d", "pow", "prelu", "prroi_pool", "psroi_pool", "py_func",
    "randint", "randn", "random_crop", "randperm", "rank", "reduce_all", "reduce_any",
    "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum", "relu", "relu6",
    "reshape", "resize_bilinear", "resize_nearest", "resize_trilinear", "roi_align", "roi_pool",
    "roll", "row_conv", "sampling_id", "scale", "scatter", "scatter_nd", "scatter_nd_add",
    "selu", "shape", "shard_index", "shuffle_channel", "sign", "similarity_focus", "size",
    "slice", "smooth_l1", "soft_relu", "softmax", "space_to_depth", "spectral_norm", "split",
    "squeeze", "stack", "stanh", "strided_slice", "sum", "swish", "t", "temporal_shift", "topk",
    "transpose", "unfold", "uniform_random", "uniform_random_batch_size_like", "unique",
    "unique_with_counts", "unsqueeze", "unstack", "where",
]
# fmt: on

# Until Fluid 1.6 these modules' functions were here.
_PARTED = ("sequence_lod", "rnn", "loss")


def __getattr__(name: str) -> Any:
    """`layers.nn.sequence_pool`: a function that has a module of its own since."""
    for part in _PARTED:
        module = import_module(f"refluid.fluid.layers.{part}")
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
