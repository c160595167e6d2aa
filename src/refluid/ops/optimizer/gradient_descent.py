"""Gradient descent, in place; for one parameter and for many at once."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from refluid.core.selected_rows import SelectedRows
from refluid.kernels import fused
from refluid.kernels.rows.updates import descend_rows, takes
from refluid.ops.drafts import SteadyStep, steady
from refluid.ops.optimizer.fused import descend, groups_by_rate
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
)
def sgd(Param: Tensor, LearningRate: Tensor, Grad: Tensor | SelectedRows) -> Tensor:
    """Param - LearningRate * Grad; of a sparse Grad only those rows are touched."""
    if isinstance(Grad, SelectedRows):
        if takes(Grad.index, Grad.value, Param):
            descend_rows(Param, Grad.index, Grad.value, LearningRate.item())
            return Param
        return Param.index_put_((Grad.index,), Grad.value * -LearningRate, accumulate=True)
    sgd_many([Param], [LearningRate], [Grad])
    return Param


@many("sgd")
def sgd_many(Param: Tensors, LearningRate: Tensors, Grad: Tensors) -> None:
    """`sgd` of all parameters of one learning rate in one pass over their memory."""
    for rate, group in groups_by_rate(LearningRate):
        descend([Param[i] for i in group], [Grad[i] for i in group], [], rate, 0.0, False)


@operator(
    "momentum",
    outputs="ParamOut VelocityOut",
    uses=None,
    lod="",
    mutates={"ParamOut": "Param", "VelocityOut": "Velocity"},
)
def momentum(
    Param: Tensor,
    Grad: Tensor | SelectedRows,
    Velocity: Tensor,
    LearningRate: Tensor,
    *,
    mu: float,
    use_nesterov: bool = False,
) -> tuple[Tensor, Tensor]:
    """velocity = mu * velocity + grad; param -= rate * velocity.

    With Nesterov: param -= rate * (grad + mu * velocity). Rows that a sparse Grad lacks move on
    with their velocity.
    """
    momentum_many(
        [Param], [dense(Grad)], [Velocity], [LearningRate], mu=mu, use_nesterov=use_nesterov
    )
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
) -> None:
    """`momentum` of all parameters of one learning rate in one pass over their memory."""
    for rate, group in groups_by_rate(LearningRate):
        params, grads = [Param[i] for i in group], [Grad[i] for i in group]
        descend(params, grads, [Velocity[i] for i in group], rate, mu, use_nesterov)


@steady("sgd")
def sgd_steady(kept: Kept) -> SteadyStep | None:
    """`sgd` of all parameters."""
    return _descent(kept["Param"], [], 0.0, nesterov=False)


@steady("momentum")
def momentum_steady(kept: Kept, *, mu: float, use_nesterov: bool = False) -> SteadyStep | None:
    """`momentum` of all parameters."""
    return _descent(kept["Param"], kept["Velocity"], mu, nesterov=use_nesterov)


def _descent(
    params: Tensors, velocities: Tensors, mu: float, *, nesterov: bool
) -> SteadyStep | None:
    if velocities and mu == 0.0:  # torch's kernel takes none then
        return None
    if not are_alike(params, *([velocities] if velocities else [])):
        return None
    slopes, options = Slopes(params), {"maximize": False, "is_first_step": False}
    move = partial(
        fused.sgd_, weight_decay=0.0, momentum=mu, dampening=0.0, nesterov=nesterov, **options
    )

    def step(grads: Tensors, rate: float) -> None:
        move(params, slopes.laid_out(grads), velocities, lr=rate)

    return step
