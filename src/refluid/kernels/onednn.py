"""oneDNN's kernels that torch has no public function for."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from refluid.kernels.parts import part

# linear(x, w, bias, activation, scalars, algorithm) is x · w^T + bias; None where torch has none.
linear: Callable[..., Tensor] | None = part("torch.ops.mkldnn._linear_pointwise.default", None)


def has_bfloat16() -> bool | None:
    """Whether the processor has instructions for bfloat16; None where that can't be known."""
    ask = part("torch.ops.mkldnn._is_mkldnn_bf16_supported", None)
    return None if ask is None else bool(ask())
