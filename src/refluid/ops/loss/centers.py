"""Center loss: samples drawn to the centre of their class."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.ir.operator import Operator
from refluid.ops.definition import OperatorDef
from refluid.ops.infer import infer_in_place, infer_like
from refluid.ops.registry import gradient, operator
from refluid.ops.required import require_rows


def _declared(definition: OperatorDef, op: Operator) -> None:
    """A number for each sample; X may be declared with more dimensions than it comes with."""
    infer_in_place(definition, op)
    infer_like("SampleCenterDiff", "X")(definition, op)
    (x,), (loss,) = (
        [op.block.var_recursive(name) for name in names]
        for names in (op.input("X"), op.output("Loss"))
    )
    loss.describe(shape=(x.shape[0], 1), dtype=x.dtype)


@operator(
    "center_loss",
    outputs="CentersOut SampleCenterDiff Loss",
    uses="X SampleCenterDiff",
    differentiable="X",
    mutates={"CentersOut": "Centers"},
    amp="keep",
    infer=_declared,
)
def center_loss(
    X: Tensor,
    Label: Tensor,
    Centers: Tensor,
    CenterUpdateRate: Tensor,
    *,
    cluster_num: int,
    need_update: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Half the squared distance of each row of X, (N, D), to the centre of its label; (N, 1).

    need_update: each centre then moves by rate * (sum of its samples' differences) / (1 + their
    number). Centers: (cluster_num, D).
    """
    require_rows("Label", Label, "X", len(X))
    x, label = X.flatten(1), Label.reshape(-1).long()
    difference = x - Centers[label]
    loss = 0.5 * (difference * difference).sum(1, keepdim=True)
    if need_update and not X.is_meta:
        count = torch.ones(len(Centers), dtype=x.dtype, device=x.device)
        count.index_add_(0, label, torch.ones_like(label, dtype=x.dtype))
        moves = torch.zeros_like(Centers).index_add_(0, label, difference)
        Centers.addcmul_(moves, CenterUpdateRate / count.unsqueeze(1))
    return Centers, difference.reshape(X.shape), loss


@gradient("center_loss")
def center_loss_grad(X: Tensor, SampleCenterDiff: Tensor, d_Loss: Tensor) -> Tensor:
    """d_Loss times the difference; centres count as constants."""
    return SampleCenterDiff * d_Loss.reshape(-1, *[1] * (X.dim() - 1))
