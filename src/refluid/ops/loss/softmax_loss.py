"""Cross entropies of a softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from refluid.ir.operator import Operator
from refluid.kernels.epilogues import softmax_is_by_loop, softmax_with_top, softmax_with_top_
from refluid.ops.drafts import of_ranks
from refluid.ops.infer import infer_like
from refluid.ops.loss.crossentropy import hard_labels, without_ignored
from refluid.ops.registry import OperatorDef, gradient, in_place, operator
from refluid.ops.required import require_axis, require_equal, require_labels


def _infer_softmax_loss(definition: OperatorDef, op: Operator) -> None:
    """By the Logits alone: the number of rows that Fluid infers for labels may be a wrong one."""
    for slot in ("Softmax", "Loss"):
        infer_like(slot, "Logits")(definition, op)
    for name in op.output("Loss"):
        loss = op.block.var_recursive(name)
        if loss.has_description():
            sizes = list(loss.shape)
            sizes[op.attr("axis")] = 1
            loss.describe(shape=sizes, dtype=None)


@operator(
    "softmax_with_cross_entropy",
    classes="Label",
    gradient_lod="none",
    outputs="Softmax Loss",
    uses="Label Softmax",
    differentiable="Logits",
    amp="keep",
    infer=_infer_softmax_loss,
)
def softmax_with_cross_entropy(
    Logits: Tensor,
    Label: Tensor,
    *,
    soft_label: bool = False,
    numeric_stable_mode: bool = True,
    ignore_index: int = -100,
    axis: int = -1,
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor]:
    """Softmax of the Logits along `axis` (unless nobody reads it), its cross entropy with Label.

    Label is int64 with size 1 at `axis`, or with soft_label a distribution as Logits. Loss has
    size 1 at `axis`; it is 0 where Label is ignore_index.
    """
    require_axis(Logits, axis)
    if soft_label:
        require_equal("Label", Label, "Logits", Logits.shape)
    else:
        require_labels(Logits, Label, axis)
    if not need[0]:
        log = torch.log_softmax(Logits, axis)
        if soft_label:
            return None, log.mul_(Label).sum(axis, keepdim=True).neg_()
        index, ignored = hard_labels(log.dim(), Label, ignore_index)
        return None, without_ignored(log.gather(axis, index).neg_(), ignored)
    softmax, top, rest = softmax_with_top(Logits, axis)
    if soft_label:
        gap = (top - Logits).sub_(rest)
        return softmax, torch.linalg.vecdot(gap, Label.to(gap.dtype), dim=axis).unsqueeze(axis)
    index, ignored = hard_labels(Logits.dim(), Label, ignore_index)
    return softmax, without_ignored(top.sub_(Logits.gather(axis, index)).sub_(rest), ignored)


@in_place("softmax_with_cross_entropy", "Logits")
def softmax_with_cross_entropy_(
    Logits: Tensor,
    Label: Tensor,
    *,
    soft_label: bool = False,
    ignore_index: int = -100,
    axis: int = -1,
    need: Sequence[bool] = (True, True),
    **others: Any,
) -> tuple[Tensor | None, Tensor]:
    """`softmax_with_cross_entropy` with the Softmax over the Logits, where a loop computes it."""
    require_axis(Logits, axis)
    if soft_label or not need[0] or not softmax_is_by_loop(Logits, axis):
        others |= {"soft_label": soft_label, "ignore_index": ignore_index}
        found: tuple[Tensor | None, Tensor]
        found = softmax_with_cross_entropy(Logits, Label, axis=axis, need=need, **others)
        return found
    require_labels(Logits, Label, axis)
    index, ignored = hard_labels(Logits.dim(), Label, ignore_index)
    chosen = Logits.gather(axis, index)
    top, rest = softmax_with_top_(Logits)
    return Logits, without_ignored(top.sub_(chosen).sub_(rest), ignored)


@gradient("softmax_with_cross_entropy")
def softmax_with_cross_entropy_grad(
    Label: Tensor,
    Softmax: Tensor,
    d_Loss: Tensor,
    *,
    soft_label: bool = False,
    ignore_index: int = -100,
    axis: int = -1,
) -> Tensor:
    """d_Loss * (Softmax - 1 at the label)."""
    return _loss_gradient(Label, Softmax, d_Loss, None, soft_label, ignore_index, axis)


@in_place("softmax_with_cross_entropy_grad", "Softmax")
def softmax_with_cross_entropy_grad_(
    Label: Tensor,
    Softmax: Tensor,
    d_Loss: Tensor,
    *,
    soft_label: bool = False,
    ignore_index: int = -100,
    axis: int = -1,
) -> Tensor:
    """`softmax_with_cross_entropy_grad` over Softmax."""
    given = (Label, d_Loss) if soft_label else (d_Loss,)
    over = Softmax if all(one.dtype == Softmax.dtype for one in given) else None
    return _loss_gradient(Label, Softmax, d_Loss, over, soft_label, ignore_index, axis)


def _loss_gradient(
    label: Tensor,
    softmax: Tensor,
    d_loss: Tensor,
    over: Tensor | None,
    soft: bool,
    ignore_index: int,
    axis: int,
) -> Tensor:
    """In the memory of `over`, where that is given."""
    if soft:
        return torch.sub(softmax, label, out=over).mul_(d_loss)
    index, ignored = hard_labels(softmax.dim(), label, ignore_index)
    d_loss = without_ignored(d_loss, ignored)
    return torch.mul(softmax, d_loss, out=over).scatter_add_(axis, index, -d_loss)


@operator(
    "softmax_loss",
    classes="Label",
    layer="softmax_with_cross_entropy",
    called="softmax_with_cross_entropy",
    outputs="Loss",
    uses="Logits Label",
    differentiable="Logits",
    amp="keep",
)
def softmax_loss(
    Logits: Tensor, Label: Tensor, *, ignore_index: int = -100, axis: int = -1
) -> Tensor:
    """`softmax_with_cross_entropy` of labels that are classes, but without Softmax.

    Layers use it where operators run at once: torch computes it and its gradient in two kernels
    each. Programs don't have it.
    """
    require_axis(Logits, axis)
    require_labels(Logits, Label, axis)
    last = axis in (-1, Logits.dim() - 1)
    logits = Logits if last else Logits.movedim(axis, -1)
    rows = logits if logits.dim() == 2 else logits.reshape(-1, logits.shape[-1])
    labels = Label.reshape(-1)
    try:
        found = cross_entropy(rows, labels, ignore_index=ignore_index, reduction="none")
    except IndexError as error:
        raise _no_class(rows, labels, ignore_index) from error
    return found.view(Label.shape)


def _no_class(rows: Tensor, labels: Tensor, ignore_index: int) -> IndexError:
    """Which label is no class: torch says it without how many there are."""
    classes = rows.shape[-1]
    wrong = labels[((labels < 0) | (labels >= classes)) & (labels != ignore_index)]
    return IndexError(f"index {int(wrong[0])} is out of bounds for dimension 1 with size {classes}")


@of_ranks("softmax_loss")
def _of_rows(
    ranks: tuple[int | None, ...], *, ignore_index: int = -100, axis: int = -1
) -> Callable[[Tensor, Tensor], Tensor] | None:
    if ranks != (2, 2) or axis not in (-1, 1):
        return None

    def losses(logits: Tensor, label: Tensor) -> Tensor:
        shape = label.shape
        if shape != (len(logits), 1):
            require_labels(logits, label, axis)
        labels = label.reshape(-1)
        try:
            found = cross_entropy(logits, labels, ignore_index=ignore_index, reduction="none")
        except IndexError as error:
            raise _no_class(logits, labels, ignore_index) from error
        return found.view(shape)

    return losses
