"""softmax_loss: the cross entropy of a softmax that nobody asks for."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.ops.registry import operator
from refluid.ops.required import require_axis
from refluid.ops.sizes import require_labels


@operator("softmax_loss", outputs="Loss", uses="Logits Label", differentiable="Logits", amp="keep")
def softmax_loss(
    Logits: Tensor, Label: Tensor, *, ignore_index: int = -100, axis: int = -1
) -> Tensor:
    """`softmax_with_cross_entropy` of labels that are classes, but without Softmax.

    Layers use it where operators run at once: torch computes it and its gradient in two kernels
    each. Programs don't have it.
    """
    require_axis(Logits, axis)
    if not Label.is_meta:
        require_labels(Logits, Label, axis)
    last = axis in (-1, Logits.dim() - 1)
    logits = Logits if last else Logits.movedim(axis, -1)
    rows = logits if logits.dim() == 2 else logits.reshape(-1, logits.shape[-1])
    found = F.cross_entropy(rows, Label.reshape(-1), ignore_index=ignore_index, reduction="none")
    return found.view(Label.shape)
