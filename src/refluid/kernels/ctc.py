"""torch's connectionist temporal classification, with the gradient that comes with it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.kernels.parts import part

_forward = part("torch._ctc_loss", None)
_backward = part("torch.ops.aten._ctc_loss_backward", None)
# Whether torch has what `loss_and_gradient` calls.
IS_THERE = _forward is not None and _backward is not None


def loss_and_gradient(
    log_probs: Tensor,
    targets: Tensor,
    times: Sequence[int],
    lengths: Sequence[int],
    blank: int,
    wanted: bool,
) -> tuple[Tensor, Tensor | None]:
    """-log p of each labelling, (batch,), inf where none fits; where wanted the gradient by logits.

    log_probs: (time, batch, classes); targets: int64 (batch, longest), none of them the blank.
    """
    common = times, lengths
    costs, alphas = _forward(log_probs, targets, *common, blank, True)
    if not wanted:
        return costs, None
    ones = torch.ones_like(costs)
    grad = _backward(ones, log_probs, targets, *common, costs, alphas, blank, True)
    return costs, grad.contiguous()
