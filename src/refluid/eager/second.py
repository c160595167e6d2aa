"""Gradients that are computed to be differentiated themselves (`create_graph`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet, OperatorNotImplemented, no_second_gradient
from refluid.kernels.settings import without_gradients


def followed(compute: Callable[..., Any], *given: Any) -> Any:
    """What it computes: followed by autograd, or without that where autograd can't."""
    try:
        return compute(*given)
    except (RuntimeError, EnforceNotMet):
        return without_gradients(compute, *given)


class _NoSecond(torch.autograd.Function):
    """A gradient as it is, whose own gradient is refused in words."""

    @staticmethod
    def forward(ctx: Any, type: str, value: Tensor, *_: Tensor) -> Tensor:
        ctx.type = type
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise OperatorNotImplemented(no_second_gradient(ctx.type))


_apply: Callable[..., Any] = _NoSecond.apply


def answered(
    ctx: Any, gradients: Sequence[Any], slopes: Mapping[Any, Tensor | None], wants: Collection[Any]
) -> list[Any]:
    """The gradients of an operator, as what they depend on lets them be differentiated.

    slopes: by result. wants: those results whose slope the gradient operator takes. ctx: of the
    call, which remembers in `before` what came when its gradients were computed for the first time.

    What the operator kept for its gradient is another result of it, and its slope comes back here
    where the gradients are differentiated: nothing answers it, so that is OperatorNotImplemented.
    A slope that came the first time too is the user's, whom Fluid doesn't answer either. Where
    autograd doesn't know what gradients depend on, differentiating them is the same error.
    """
    type = f"{ctx.call.op.type}_grad"
    others = {one for one, slope in slopes.items() if slope is not None and one not in wants}
    if ctx.before is None:
        ctx.before = others
    elif others - ctx.before:
        raise OperatorNotImplemented(no_second_gradient(type))
    known = [one for one in slopes.values() if one is not None and one.requires_grad]
    return [
        _apply(type, one, *known)
        if known and isinstance(one, Tensor) and not one.requires_grad
        else one
        for one in gradients
    ]
