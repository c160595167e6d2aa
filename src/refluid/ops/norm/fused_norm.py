"""Batch normalisation with what follows it: an activation, or a sum and an activation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.kernels.epilogues import activate_, add_relu, deactivate, deactivate_
from refluid.ops.bounded import Channels
from refluid.ops.gradient_slots import gradient_reads
from refluid.ops.norm.normalization import batch_norm, batch_norm_grad
from refluid.ops.registry import gradient, in_place, operator

_OUTPUTS = "Y MeanOut VarianceOut SavedMean SavedVariance ReserveSpace?"
_USES = "Y Scale Bias SavedMean SavedVariance"
_WRITES = {"MeanOut": "Mean", "VarianceOut": "Variance"}


@operator(
    "fused_batch_norm_act",
    gradient_lod="none",
    like="batch_norm",
    outputs=_OUTPUTS,
    uses=f"X {_USES}",
    differentiable="X Scale Bias",
    amp="keep",
    activation=True,
    recomputable="X",
    mutates=_WRITES,
)
def fused_batch_norm_act(
    *norm: Any, act_type: str = "relu", **settings: Any
) -> tuple[Tensor | None, ...]:
    """activation(`batch_norm`(X)), the activation relu, tanh or sigmoid."""
    y, *others = batch_norm(*norm, **settings)
    assert y is not None
    return activate_(y, act_type), *others


@operator(
    "fused_bn_add_activation",
    gradient_lod="none",
    like="batch_norm",
    outputs=_OUTPUTS,
    uses=f"X {_USES}",
    differentiable="X Z Scale Bias",
    amp="keep",
    activation=True,
    recomputable="X Z",
    made_of="batch_norm fused_elemwise_activation",
    mutates=_WRITES,
)
def fused_bn_add_activation(
    X: Channels, Z: Tensor, *norm: Any, act_type: str = "relu", **settings: Any
) -> tuple[Tensor | None, ...]:
    """activation(`batch_norm`(X) + Z) for Z as X, the activation relu, tanh or sigmoid."""
    y, *others = batch_norm(X, *norm, **settings)
    assert y is not None
    if act_type == "relu":
        return add_relu(y, Z, out=y), *others
    return activate_(y.add_(Z), act_type), *others


def _define_gradient(name: str, with_sum: bool, over: bool) -> Callable[..., Any]:
    undo = deactivate_ if over else deactivate

    def backward(
        X: Tensor,
        Y: Tensor,
        *norm: Any,
        act_type: str = "relu",
        need: Sequence[bool] = (True, True, True, True),
        **settings: Any,
    ) -> tuple[Tensor | None, ...]:
        *given, d_Y = norm
        grad = undo(Y, d_Y, act_type)
        wanted = (need[0], *need[-2:])
        d_x, d_scale, d_bias = batch_norm_grad(X, *given, grad, need=wanted, **settings)
        return (d_x, grad, d_scale, d_bias) if with_sum else (d_x, d_scale, d_bias)

    backward.__name__ = f"{name}_grad{'_' if over else ''}"
    backward.__doc__ = f"Gradients of {'X, Z,' if with_sum else 'X,'} Scale and Bias" + (
        ", in the memory of d_Y." if over else "."
    )
    return backward


def _slots(op: Operator) -> list[str]:
    """With global statistics it reads those too."""
    running = ["Mean", "Variance"] if op.attr("use_global_stats") else []
    return ["X", *_USES.split(), "ReserveSpace", *running, "Y" + GRAD]


for _name, _with_sum in (("fused_batch_norm_act", False), ("fused_bn_add_activation", True)):
    gradient(_name, like="batch_norm_grad")(_define_gradient(_name, _with_sum, over=False))
    in_place(f"{_name}_grad", "d_Y")(_define_gradient(_name, _with_sum, over=True))
    gradient_reads(_name)(_slots)
