"""Deep gradient compression: only the largest part of a gradient is passed on, the rest waits.

Before step `rampup_begin_step` gradients pass whole, and momentum is the update's. From then on
momentum is kept with what waits, so that the update is plain descent.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.ops.infer import infer_like
from refluid.ops.math.norms import clip_by_norm
from refluid.ops.optimizer.gradient_descent import momentum, sgd
from refluid.ops.registry import operator


def _begun(current_step: Tensor, rampup_begin_step: float) -> bool:
    return 0 <= rampup_begin_step <= current_step.item()


@operator(
    "dgc",
    outputs="U_out V_out Grad_out k",
    uses=None,
    lod="",
    mutates={"U_out": "U", "V_out": "V"},
    views={"Grad_out": "Grad"},
    infer=infer_like("Grad_out", "Grad"),
    compresses="Grad_out",
)
def dgc(
    U: Tensor,
    V: Tensor,
    Grad: Tensor,
    current_step: Tensor,
    *,
    m: float = 0.9,
    use_nesterov: bool = True,
    sparsity: Sequence[float] = (0.999,),
    rampup_begin_step: float = 0.0,
    rampup_step: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Grad_out holds the k largest elements of V, which leave U and V; the others are zero.

    U is the velocity (U = m * U + Grad), V the sum of what waits (V += U); with Nesterov
    U = m * (U + Grad) and V += U + Grad. sparsity: the share that waits; of several, each holds
    for as many of the first rampup_step steps. k is of shape (1,).
    """
    if not _begun(current_step, rampup_begin_step):
        return U, V, Grad, Grad.new_full((1,), Grad.numel())
    if use_nesterov:
        U.add_(Grad).mul_(m)
        V.add_(U).add_(Grad)
    else:
        U.mul_(m).add_(Grad)
        V.add_(U)
    passed = (current_step.item() - rampup_begin_step) * len(sparsity) / rampup_step
    share = 1.0 - sparsity[min(int(passed), len(sparsity) - 1)]
    count = max(round(V.numel() * share), 1)
    largest = V.abs().reshape(-1).topk(count, sorted=False).indices
    sent = torch.zeros_like(V).reshape(-1)
    sent[largest] = V.reshape(-1)[largest]
    sent = sent.reshape(V.shape)
    waits = sent == 0
    U.mul_(waits)
    V.mul_(waits)
    return U, V, sent, Grad.new_full((1,), count)


@operator(
    "dgc_momentum",
    outputs="Grad_out ParamOut VelocityOut",
    uses=None,
    lod="",
    mutates={"ParamOut": "Param", "VelocityOut": "Velocity"},
    views={"Grad_out": "Grad"},
    infer=infer_like("Grad_out", "Grad"),
)
def dgc_momentum(
    current_step: Tensor,
    nranks: Tensor,
    Param: Tensor,
    Grad: Tensor,
    Velocity: Tensor,
    LearningRate: Tensor,
    *,
    rampup_begin_step: float = -1.0,
    mu: float,
    use_nesterov: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """`momentum` before step rampup_begin_step, `sgd` from it on; Grad_out = Grad / nranks."""
    ranks = nranks.item()
    grad = Grad if ranks == 1 else Grad / ranks
    if _begun(current_step, rampup_begin_step):
        sgd(Param, LearningRate, grad)
    else:
        momentum(Param, grad, Velocity, LearningRate, mu=mu, use_nesterov=use_nesterov)
    return grad, Param, Velocity


@operator(
    "dgc_clip_by_norm",
    outputs="Out",
    uses=None,
    lod="X",
    views={"Out": "X"},
    infer=infer_like("Out", "X"),
)
def dgc_clip_by_norm(
    current_step: Tensor, X: Tensor, *, rampup_begin_step: float = -1.0, max_norm: float
) -> Tensor:
    """`clip_by_norm` from step rampup_begin_step on, X before it."""
    if not _begun(current_step, rampup_begin_step):
        return X
    clipped: Tensor = clip_by_norm(X, max_norm=max_norm)
    return clipped
