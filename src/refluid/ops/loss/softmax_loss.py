"""softmax_loss: the cross entropy of a softmax that nobody asks for."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import cross_entropy

from refluid.ops.drafts import of_ranks
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
    found = cross_entropy(rows, Label.reshape(-1), ignore_index=ignore_index, reduction="none")
    return found.view(Label.shape)


@of_ranks("softmax_loss")
def _of_rows(
    ranks: tuple[int | None, ...], *, ignore_index: int = -100, axis: int = -1
) -> Callable[[Tensor, Tensor], Tensor] | None:
    if ranks != (2, 2) or axis not in (-1, 1):
        return None

    def losses(logits: Tensor, label: Tensor) -> Tensor:
        shape = label.shape
        if shape[1] != 1:
            require_labels(logits, label, axis)
        return cross_entropy(
            logits, label.reshape(-1), ignore_index=ignore_index, reduction="none"
        ).view(shape)

    return losses
