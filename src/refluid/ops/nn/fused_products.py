"""Products that Fluid's inference passes fuse with what follows them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from refluid.ops.extras import Extras
from refluid.ops.registry import operator

_PADDING = 4  # columns and rows of zeros that Fluid's pass puts around weights
_FC: Extras = {
    "use_mkldnn": False,
    "@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@": True,
    "use_quantizer": False,
    "Scale_in": 1.0,
    "Scale_weights": [1.0],
    "Scale_out": 1.0,
    "force_fp32_output": False,
}


@operator("fc", outputs="Out", uses=None, extra=_FC, amp="fast")
def fc(
    Input: Tensor,
    W: Tensor,
    Bias: Tensor | None = None,
    *,
    in_num_col_dims: int = 1,
    activation_type: str = "",
    padding_weights: bool = False,
) -> Tensor:
    """Input, seen as a matrix, times W plus Bias; then relu if that is the activation type."""
    weights = W[:-_PADDING, :-_PADDING] if padding_weights else W
    out = Input.reshape(math.prod(Input.shape[:in_num_col_dims]), -1) @ weights
    if Bias is not None:
        out = out + Bias.reshape(1, -1)
    out = torch.relu(out) if activation_type == "relu" else out
    return out.reshape(*Input.shape[:in_num_col_dims], weights.shape[1])


@operator("fusion_repeated_fc_relu", outputs="ReluOut* Out", uses=None, amp="fast")
def fusion_repeated_fc_relu(
    X: Tensor, W: list[Tensor], Bias: list[Tensor]
) -> tuple[list[Tensor], Tensor]:
    """relu(... relu(X · W[0] + Bias[0]) ...); ReluOut are all results but the last."""
    results = [X]
    for weights, bias in zip(W, Bias, strict=True):
        results.append(torch.relu(results[-1] @ weights + bias.reshape(1, -1)))
    return results[1:-1], results[-1]


@operator("fusion_squared_mat_sub", outputs="SquaredX SquaredY SquaredXY Out", uses=None)
def fusion_squared_mat_sub(X: Tensor, Y: Tensor, *, scalar: float = 1.0) -> tuple[Tensor, ...]:
    """((X · Y)² - X² · Y²) * scalar, and the squares."""
    x, y, product = X.square(), Y.square(), (X @ Y).square()
    return x, y, product, (product - x @ y) * scalar
