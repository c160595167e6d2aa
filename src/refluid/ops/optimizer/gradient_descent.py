"""Gradient descent, in place; for one parameter and for many at once."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from refluid.core.selected_rows import SelectedRows
from refluid.kernels import fused
from refluid.kernels.rows.updates import descend_rows, takes
from refluid.ops.drafts import SteadyStep, steady
from refluid.ops.optimizer.fused import descend, groups_by_rate, in_order, memory_orders
from refluid.ops.optimizer.steady import Kept, Slopes, are_alike
from refluid.ops.registry import many, operator
from refluid.ops.sparse.sparse import dense

Tensors = list[Tensor]


@operator(
    "sgd",
    outputs="ParamOut",
    uses=None,
    lod="",
    mutates={"ParamOut": "Param"},
    rows_suffice={"Grad": ""},
    decays="l2_decay",
    by_tiles="sgd_by_tiles",
)
def sgd(
    Param: Tensor,
    LearningRate: Tensor,
    Grad: Tensor | SelectedRows,
    *,
    l2_decay: float = 0.0,
) -> Tensor:
    """Param - LearningRate * Grad; of a sparse Grad only those rows are touched.

    l2_decay, which passes set: l2_decay * Param is added to Grad before, in all rows.
    """
    if isinstance(Grad, SelectedRows) and not l2_decay:
        if takes(Grad.index, Grad.value, Param):
            descend_rows(Param, Grad.index, Grad.value, LearningRate.item())
            return Param
        return Param.index_put_((Grad.index,), Grad.value * -LearningRate, accumulate=True)
    sgd_many([Param], [LearningRate], [dense(Grad)], l2_decay=l2_decay)
    return Param


@many("sgd")
def sgd_many(
    Param: Tensors, LearningRate: Tensors, Grad: Tensors, *, l2_decay: float = 0.0
) -> None:
    """`sgd` of all parameters of one learning rate in one pass over their memory."""
    for rate, group in groups_by_rate(LearningRate):
        params, grads = [Param[i] for i in group], [Grad[i] for i in group]
        descend(params, grads, [], rate, 0.0, False, l2_decay)


@operator(
    "momentum",
    outputs="ParamOut VelocityOut",
    uses=None,
    lod="",
    mutates={"ParamOut": "Param", "VelocityOut": "Velocity"},
    decays="l2_decay",
    by_tiles="momentum_by_tiles",
)
def momentum(
    Param: Tensor,
    Grad: Tensor | SelectedRows,
    Velocity: Tensor,
    LearningRate: Tensor,
    *,
    mu: float,
    use_nesterov: bool = False,
    l2_decay: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """velocity = mu * velocity + grad; param -= rate * velocity.

    With Nesterov: param -= rate * (grad + mu * velocity). Rows that a sparse Grad lacks move on
    with their velocity. l2_decay: as of `sgd`.
    """
    settings: dict[str, Any] = {"mu": mu, "use_nesterov": use_nesterov, "l2_decay": l2_decay}
    momentum_many([Param], [dense(Grad)], [Velocity], [LearningRate], **settings)
    return Param, Velocity


@many("momentum")
def momentum_many(
    Param: Tensors,
    Grad: Tensors,
    Velocity: Tensors,
    LearningRate: Tensors,
    *,
    mu: float,
    use_nesterov: bool = False,
    l2_decay: float = 0.0,
) -> None:
    """`momentum` of all parameters of one learning rate in one pass over their memory."""
    for rate, group in groups_by_rate(LearningRate):
        params, grads = [Param[i] for i in group], [Grad[i] for i in group]
        descend(params, grads, [Velocity[i] for i in group], rate, mu, use_nesterov, l2_decay)


@steady("sgd")
def sgd_steady(kept: Kept, *, l2_decay: float = 0.0) -> SteadyStep | None:
    """`sgd` of all parameters."""
    return _descent(kept["Param"], [], 0.0, l2_decay, nesterov=False)


@steady("momentum")
def momentum_steady(
    kept: Kept, *, mu: float, use_nesterov: bool = False, l2_decay: float = 0.0
) -> SteadyStep | None:
    """`momentum` of all parameters."""
    return _descent(kept["Param"], kept["Velocity"], mu, l2_decay, nesterov=use_nesterov)


def _descent(
    params: Tensors, velocities: Tensors, mu: float, decay: float, *, nesterov: bool
) -> SteadyStep | None:
    if velocities and mu == 0.0:  # torch's kernel takes none then
        return None
    if not are_alike(params, *([velocities] if velocities else [])):
        return None
    slopes, orders = Slopes(params), memory_orders(params)
    options: dict[str, Any] = {"maximize": False, "is_first_step": False}
    options |= {"weight_decay": decay, "momentum": mu, "dampening": 0.0, "nesterov": nesterov}
    move = partial(fused.sgd_, **options)

    def step(grads: Tensors, rate: float) -> None:
        move(*in_order(orders, params, slopes.laid_out(grads), velocities), lr=rate)

    return step
