"""Softmax."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from refluid.kernels.epilogues import softmax_gradient
from refluid.ops.registry import gradient, operator
from refluid.ops.required import require_axis

_LEAST = math.exp(-64.0)


@operator(
    "softmax",
    gradient_lod="none",
    outputs="Out",
    uses="Out",
    amp="keep",
    extra={"use_cudnn": False, "data_format": "AnyLayout", "use_mkldnn": False, "is_test": False},
)
def softmax(X: Tensor, *, axis: int = -1) -> Tensor:
    """exp(X) normalised to sum 1 along `axis`; no result is below exp(-64), as in Fluid."""
    require_axis(X, axis)
    return torch.softmax(X, axis).clamp_min_(_LEAST)


@gradient("softmax")
def softmax_grad(Out: Tensor, d_Out: Tensor, *, axis: int = -1) -> Tensor:
    """Out * (d_Out - sum(d_Out * Out)) along `axis`."""
    return softmax_gradient(Out, d_Out, axis)
