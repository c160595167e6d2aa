"""Loss scaling: gradients checked and divided by the scale, and the scale adapted."""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.selected_rows import SelectedRows
from refluid.ir.operator import Operator
from refluid.kernels import fused, lists
from refluid.ops.infer import infer_like
from refluid.ops.registry import OperatorDef, operator

Gradient = Tensor | SelectedRows


def _dense(gradients: list[Gradient]) -> list[Tensor]:
    return [one.value if isinstance(one, SelectedRows) else one for one in gradients]


def _infer_check(definition: OperatorDef, op: Operator) -> None:
    infer_like("Out", "X")(definition, op)
    for name in op.output("FoundInfinite"):
        op.block.var_recursive(name).describe(shape=(1,), dtype=VarType.BOOL)


@operator(
    "check_finite_and_unscale",
    outputs="Out* FoundInfinite",
    uses=None,
    lod="",
    mutates={"Out": "X"},
    checks="FoundInfinite",
    infer=_infer_check,
)
def check_finite_and_unscale(
    X: list[Tensor | SelectedRows], Scale: Tensor
) -> tuple[list[Tensor | SelectedRows], Tensor]:
    """Each X divided by Scale, in place; FoundInfinite says whether any element is inf or nan."""
    groups: dict[tuple[torch.dtype, torch.device], list[Tensor]] = defaultdict(list)
    for value in _dense(X):
        groups[value.dtype, value.device].append(value)
    found = torch.zeros(1, dtype=torch.float32, device=Scale.device)
    inverse = Scale.to(torch.float32).reciprocal()
    for values in groups.values():
        fused.unscale_(values, found, inverse)
    return X, found != 0


def _infer_update(definition: OperatorDef, op: Operator) -> None:
    for out_slot, in_slot in definition.mutates.items():
        infer_like(out_slot, in_slot)(definition, op)


@operator(
    "update_loss_scaling",
    outputs="Out*? LossScaling OutGoodSteps OutBadSteps",
    uses=None,
    lod="",
    mutates={
        "Out": "X",
        "LossScaling": "PrevLossScaling",
        "OutGoodSteps": "InGoodSteps",
        "OutBadSteps": "InBadSteps",
    },
    clears=True,
    infer=_infer_update,
)
def update_loss_scaling(
    X: list[Tensor | SelectedRows] | None,
    FoundInfinite: Tensor,
    PrevLossScaling: Tensor,
    InGoodSteps: Tensor,
    InBadSteps: Tensor,
    *,
    incr_every_n_steps: int,
    decr_every_n_nan_or_inf: int,
    incr_ratio: float,
    decr_ratio: float,
    stop_update: bool = False,
) -> tuple[list[Tensor | SelectedRows] | None, Tensor, Tensor, Tensor]:
    """Sets X to zero after FoundInfinite, and adapts the scale unless `stop_update`.

    After `incr_every_n_steps` finite steps in a row the scale is multiplied by `incr_ratio`, as
    long as it stays finite; after `decr_every_n_nan_or_inf` others in a row by `decr_ratio`, down
    to 1. It reads FoundInfinite on the host, so a GPU is waited for once per step.
    """
    infinite = bool(FoundInfinite.item())
    if infinite and X:
        lists.zero_(_dense(X))
    state = PrevLossScaling, InGoodSteps, InBadSteps
    if stop_update:
        return X, *state
    counter, other = (InBadSteps, InGoodSteps) if infinite else (InGoodSteps, InBadSteps)
    other.zero_()
    counter.add_(1)
    if int(counter.item()) >= (decr_every_n_nan_or_inf if infinite else incr_every_n_steps):
        counter.zero_()
        _rescale(PrevLossScaling, decr_ratio if infinite else incr_ratio)
    return X, *state


def _rescale(scale: Tensor, ratio: float) -> None:
    changed = torch.clamp(scale * ratio, min=1.0)
    if bool(torch.isfinite(changed).all()):
        scale.copy_(changed)
