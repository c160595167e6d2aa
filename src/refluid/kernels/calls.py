"""torch's own functions by the names of kernels.

They take half as long to call as the operators of torch.ops, and the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from refluid.kernels import fused
from refluid.kernels.parts import part

_FUNCTIONS = """
    mm addmm bmm baddbmm add sub mul div relu relu_ sigmoid tanh exp log sqrt rsqrt neg abs pow
    sum mean amax amin clamp where cat stack gather index_select native_batch_norm
    native_layer_norm reciprocal maximum minimum sigmoid_ tanh_ exp_ sqrt_ neg_ square t permute
    transpose unsqueeze squeeze argmax eq ne lt le gt ge logical_and logical_or logical_not
    zeros_like ones_like full_like clone convolution addcmul addcdiv embedding reciprocal_ log_
    rsqrt_ abs_ floor sign erf logsumexp cumsum empty_like full zeros split_with_sizes unbind
    select native_group_norm constant_pad_nd
"""
_PRIVATE = "_softmax _softmax_backward_data _log_softmax _log_softmax_backward_data"
_METHODS = """
    view add_ sub_ mul_ div_ copy_ zero_ fill_ clamp_ clamp_min_ addcmul_ addcdiv_ expand
    reshape masked_fill_ masked_fill index_add_ scatter_ scatter_add_ lerp_ new_zeros new_full
"""
_FOUND: dict[str, Callable[..., Any] | None] = {
    **{name: getattr(torch, name, None) for name in _FUNCTIONS.split()},
    **{name: getattr(torch.Tensor, name, None) for name in _METHODS.split()},
    **{name: part(f"torch.{name}", None) for name in _PRIVATE.split()},
    "_fused_sgd_": fused.sgd_,
    "_fused_adam_": fused.adam_,
    "_fused_adagrad_": fused.adagrad_,
    "_unsafe_view": torch.Tensor.view,
}
FAST: dict[str, Callable[..., Any]] = {
    name: function for name, function in _FOUND.items() if function is not None
}
