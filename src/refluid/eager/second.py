"""Gradients that are computed to be differentiated themselves (`create_graph`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    """A value as it is, whose own gradient is refused in words."""

    @staticmethod
    def forward(ctx: Any, type: str, value: Tensor, *_: Tensor) -> Tensor:
        ctx.type = type
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise OperatorNotImplemented(no_second_gradient(ctx.type))


_refused: Callable[..., Any] = _NoSecond.apply


def kept(values: Sequence[Any], slopeless: Sequence[bool], type: str) -> list[Any]:
    """What the gradient operator takes; nothing answers results whose slopes it doesn't take."""
    return [
        _refused(f"{type}_grad", one)
        if without and isinstance(one, Tensor) and one.requires_grad
        else one
        for one, without in zip(values, slopeless, strict=True)
    ]


def answered(ctx: Any, gradients: Sequence[Any], slopes: Iterable[Tensor | None]) -> list[Any]:
    """The gradients of an operator, as what they depend on lets them be differentiated.

    Where autograd doesn't know what they depend on, or must not (`ctx.once`: Fluid has no such
    gradient, and another is not what depends on an input that it gives none), differentiating
    them is OperatorNotImplemented.
    """
    type = f"{ctx.call.op.type}_grad"
    known = [one for one in slopes if one is not None and one.requires_grad]
    return [
        _refused(type, one.detach(), *known)
        if known and isinstance(one, Tensor) and (ctx.once or not one.requires_grad)
        else one
        for one in gradients
    ]
