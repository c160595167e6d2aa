"""Click-through features: the show and click counts in front of an embedding, data_norm."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from refluid.core.offsets import Levels
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.bounded import Epsilon, Matrix
from refluid.ops.registry import GradOp, gradient, gradient_op, operator

_NONE = 1e-7  # a show count nearer to 0 means that there was no show


@operator("cvm", outputs="Y", uses="X CVM", differentiable="X", amp="keep")
def cvm(X: Tensor, CVM: Tensor, *, use_cvm: bool = True) -> Tensor:
    """X (N, 2 + D) with show and click replaced by log(show + 1), log(click + 1) - log(show + 1).

    Without use_cvm they are left out: (N, D).
    """
    if not use_cvm:
        return X[:, 2:].contiguous()
    show = torch.log(X[:, :1] + 1.0)
    click = torch.log(X[:, 1:2] + 1.0) - show
    return torch.cat([show, click, X[:, 2:]], 1)


@gradient("cvm")
def cvm_grad(X: Tensor, CVM: Tensor, d_Y: Tensor, *, use_cvm: bool = True, lod_X: Levels) -> Tensor:
    """d_Y, with the counts CVM of the instance in front: they are summed up like a gradient."""
    counts = CVM.to(d_Y.dtype)
    if lod_X:
        counts = counts[lod_X[-1].owners(counts.device)]
    return torch.cat([counts, d_Y[:, 2:] if use_cvm else d_Y], 1)


def _shown(X: Tensor, slot_dim: int) -> Tensor:
    """1 for elements of a slot whose first element, the show count, is not zero; else 0."""
    slots = X.reshape(X.shape[0], -1, slot_dim)
    shown = (slots[..., :1].abs() > _NONE).to(X.dtype)
    return shown.expand(slots.shape).reshape(X.shape)


@operator(
    "data_norm",
    gradient_lod="none",
    outputs="Y Means Scales",
    uses="scale_w bias X Means Scales",
    differentiable="scale_w bias X BatchSize BatchSum BatchSquareSum",
    amp="keep",
    extra={"use_mkldnn": False, "sync_stats": False, "data_layout": "NCHW"},
    lod="X",
    without_lod="Means Scales",
)
def data_norm(
    scale_w: Tensor | None,
    bias: Tensor | None,
    X: Matrix,
    BatchSize: Tensor,
    BatchSum: Tensor,
    BatchSquareSum: Tensor,
    *,
    epsilon: Epsilon = 1e-4,
    slot_dim: int = -1,
    summary_decay_rate: float = 0.9999999,
    enable_scale_and_shift: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """(X - BatchSum / BatchSize) * sqrt(BatchSize / BatchSquareSum), by column of X (N, C).

    The three are sums over all data seen so far. enable_scale_and_shift: the result times scale_w
    plus bias. slot_dim: slots of that many columns whose first element is 0 give 0.
    """
    means, scales = BatchSum / BatchSize, torch.sqrt(BatchSize / BatchSquareSum)
    y = (X - means) * scales
    if slot_dim > 0 and not X.is_meta:
        y = y * _shown(X, slot_dim)
    if enable_scale_and_shift and scale_w is not None and bias is not None:
        y = y * scale_w + bias
    return y, means, scales


_SUMS = "BatchSize BatchSum BatchSquareSum"


def data_norm_gradient(op: Operator) -> list[GradOp]:
    """Its gradient operator names the sums as outputs too; they stay as they are."""
    read = ["X", "Means", "Scales", "Y" + GRAD]
    read += [slot for slot in ("scale_w", "bias") if slot in op.inputs]
    made = gradient_op(op, "data_norm_grad", read)
    outputs = {
        slot: names for slot, names in made.outputs.items() if slot.removesuffix(GRAD) in op.inputs
    }
    return [replace(made, outputs=outputs | {slot: op.input(slot) for slot in _SUMS.split()})]


@gradient("data_norm", maker=data_norm_gradient, untouched=_SUMS)
def data_norm_grad(
    scale_w: Tensor | None,
    bias: Tensor | None,
    X: Tensor,
    Means: Tensor,
    Scales: Tensor,
    d_Y: Tensor,
    *,
    epsilon: float = 1e-4,
    slot_dim: int = -1,
    enable_scale_and_shift: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of scale_w, bias and X; for the sums what this batch adds to them.

    That is N, the sum of X, and the sum of (X - Means)² + epsilon. With slot_dim it is 1 and the
    means over the rows that were shown, but for N * epsilon. The sums stay as they are.
    """
    shown = _shown(X, slot_dim) if slot_dim > 0 else torch.ones_like(X)
    apart = (X - Means) * shown
    d_scale = d_bias = None
    grad = d_Y
    if enable_scale_and_shift and scale_w is not None:
        d_scale, d_bias = (d_Y * apart * Scales).sum(0), d_Y.sum(0)
        grad = d_Y * scale_w
    size = shown.sum(0)
    total, squares, noise = (X * shown).sum(0), (apart * apart).sum(0), size * epsilon
    if slot_dim > 0:
        count = size.clamp(min=1.0)
        total, squares, size = total / count, squares / count, size.clamp(max=1.0)
    sums = size, total, squares + noise
    return d_scale, d_bias, grad * Scales * shown, *sums, None, None, None
