"""The layers of `fluid.layers.nn`, which live in one file per topic."""

from refluid.fluid.layers.activation import (
    brelu,
    elu,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    log,
    maxout,
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
from refluid.fluid.layers.assignment import (
    sum,
)
from refluid.fluid.layers.comparison import (
    elementwise_equal,
)
from refluid.fluid.layers.convolution import (
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
)
from refluid.fluid.layers.counting import (
    autoincreased_step_counter,
)
from refluid.fluid.layers.creation import (
    rank,
)
from refluid.fluid.layers.ctc import (
    ctc_greedy_decoder,
)
from refluid.fluid.layers.deformable import (
    deformable_conv,
)
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
from refluid.fluid.layers.embedding import (
    embedding,
    one_hot,
)
from refluid.fluid.layers.joining import (
    split,
    stack,
    unstack,
)
from refluid.fluid.layers.labels import (
    label_smooth,
)
from refluid.fluid.layers.linear import (
    fc,
    matmul,
    mul,
)
from refluid.fluid.layers.loss import (
    log_loss,
    smooth_l1,
)
from refluid.fluid.layers.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    l2_normalize,
    layer_norm,
    lrn,
)
from refluid.fluid.layers.padding import (
    pad,
    pad2d,
    pad_constant_like,
)
from refluid.fluid.layers.pooling import (
    adaptive_pool2d,
    adaptive_pool3d,
    pool2d,
    pool3d,
)
from refluid.fluid.layers.random import (
    dropout,
    gaussian_random,
    gaussian_random_batch_size_like,
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
from refluid.fluid.layers.selection import (
    topk,
    where,
)
from refluid.fluid.layers.sequences import (
    im2sequence,
    lod_append,
    lod_reset,
    row_conv,
)
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
from refluid.fluid.layers.sharding import (
    shard_index,
)
from refluid.fluid.layers.slicing import (
    gather,
    gather_nd,
    scatter,
    slice,
    strided_slice,
)
from refluid.fluid.layers.sparse_rows import (
    get_tensor_from_selected_rows,
    merge_selected_rows,
)

__all__ = [
    "adaptive_pool2d",
    "adaptive_pool3d",
    "autoincreased_step_counter",
    "batch_norm",
    "brelu",
    "clip",
    "clip_by_norm",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "ctc_greedy_decoder",
    "deformable_conv",
    "deformable_roi_pooling",
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
    "gaussian_random",
    "gaussian_random_batch_size_like",
    "get_tensor_from_selected_rows",
    "group_norm",
    "hard_sigmoid",
    "hard_swish",
    "im2sequence",
    "instance_norm",
    "l2_normalize",
    "label_smooth",
    "layer_norm",
    "leaky_relu",
    "lod_append",
    "lod_reset",
    "log",
    "log_loss",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lrn",
    "matmul",
    "maxout",
    "mean",
    "merge_selected_rows",
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
