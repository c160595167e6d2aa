"""Gradients of gradients, for the operators of which Fluid has them (gradient penalties).

A body takes what the gradient operator took and made: `DOut` is `Out@GRAD`, `DDX` the gradient
of `X@GRAD`, zero where it is missing. It returns gradients of what the gradient operator took:
`DX` that of `X`, `DDOut` that of `Out@GRAD`. Attributes are those of the forward operator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from refluid.ops.drafts import defined, say
from refluid.ops.gradient_slots import made_of_flows, of_the_flow, second_order
from refluid.ops.indicating import indicator
from refluid.ops.math import reducing, reduction  # noqa: F401  (they define what is named)
from refluid.ops.math.broadcasting import unbroadcast
from refluid.ops.math.elementwise import (
    align,
    align_both,
    elementwise_mul,
    elementwise_pow_grad,
)
from refluid.ops.math.linear import bmm_grad, matmul, mul
from refluid.ops.math.norms import norm_grad
from refluid.ops.math.unary import reciprocal_grad, rsqrt_grad
from refluid.ops.nn.activation import pow_grad
from refluid.ops.nn.convolution import conv2d
from refluid.ops.nn.volumes import conv3d
from refluid.ops.norm.layernorm import instance_norm
from refluid.ops.signature import Body
from refluid.ops.tensor import arranging, joining, padding, shaping, slicing  # noqa: F401

Grad = Tensor | None


def _bilinear(forward: Callable[..., Tensor]) -> Body:
    """DDOut = forward(DDX, Y) + forward(X, DDY), and how DOut flows to X and Y through it."""

    def body(
        x: Tensor, y: Tensor, d_out: Tensor, dd_x: Grad, dd_y: Grad, **attrs: Any
    ) -> tuple[Grad, Grad, Grad]:
        x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
        with torch.enable_grad():
            terms = [forward(dd_x, y, **attrs)] if dd_x is not None else []
            terms += [forward(x, dd_y, **attrs)] if dd_y is not None else []
        d_x, d_y = torch.autograd.grad(terms, (x, y), [d_out] * len(terms), allow_unused=True)
        total = terms[0] if len(terms) == 1 else terms[0] + terms[1]
        return total.detach(), d_x, d_y

    return body


def _convolution(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(x: Tensor, kernel: Tensor, **attrs: Any) -> Tensor:
        return forward(x, kernel, None, **attrs)

    return run


_CONV = "Input Filter DOutput DDInput? DDFilter?", "DDOutput? DInput? DFilter?"
_OTHERS_OF_CONV = {"DInput": "DDFilter", "DFilter": "DDInput"}
_OTHERS = {"DX": "DDY", "DY": "DDX"}
_PRODUCT = "X Y DOut DDX? DDY?", "DDOut? DX? DY?"
for _name, _forward in (("conv2d", conv2d), ("depthwise_conv2d", conv2d), ("conv3d", conv3d)):
    second_order(_name, *_CONV, _OTHERS_OF_CONV)(_bilinear(_convolution(_forward)))
for _name, _forward in (("mul", mul), ("matmul", matmul), ("elementwise_mul", elementwise_mul)):
    second_order(_name, *_PRODUCT, _OTHERS)(_bilinear(_forward))


@second_order("elementwise_add", "Y DOut DDX? DDY?", "DDOut?")
def elementwise_add_grad_grad(
    Y: Tensor, DOut: Tensor, DDX: Grad, DDY: Grad, *, axis: int = -1
) -> Tensor:
    """DDOut = DDX + DDY."""
    out = torch.zeros_like(DOut) if DDX is None else DDX.expand(DOut.shape)
    return out if DDY is None else out + align(DOut, DDY, axis)


@second_order("elementwise_sub", "Y DOut DDX? DDY?", "DDOut?")
def elementwise_sub_grad_grad(
    Y: Tensor, DOut: Tensor, DDX: Grad, DDY: Grad, *, axis: int = -1
) -> Tensor:
    """DDOut = DDX - DDY."""
    out = torch.zeros_like(DOut) if DDX is None else DDX.expand(DOut.shape)
    return out if DDY is None else out - align(DOut, DDY, axis)


@second_order("elementwise_div", "Y Out DX DDX? DDY?", "DOut? DDOut? DY?")
def elementwise_div_grad_grad(
    Y: Tensor, Out: Tensor, DX: Tensor, DDX: Grad, DDY: Grad, *, axis: int = -1
) -> tuple[Tensor, Tensor, Tensor]:
    """DDOut = (DDX - Out * DDY) / Y, DY = -DX * DDOut, DOut = -DX * DDY."""
    by = align(Out, Y, axis)
    dd_x = torch.zeros_like(Out) if DDX is None else DDX
    dd_y = torch.zeros_like(by) if DDY is None else align(Out, DDY, axis)
    dd_out = (dd_x - Out * dd_y) / by
    return -DX * dd_y, dd_out, unbroadcast(-DX * dd_out, Y, axis)


@second_order("relu", "Out DDX", "DDOut?")
def relu_grad_grad(Out: Tensor, DDX: Tensor) -> Tensor:
    """DDX where Out is positive, else 0."""
    return DDX * (Out > 0)


@second_order("leaky_relu", "Out DDX", "DDOut?")
def leaky_relu_grad_grad(Out: Tensor, DDX: Tensor, *, alpha: float = 0.02) -> Tensor:
    """DDX where Out is positive, else alpha * DDX."""
    return torch.where(Out > 0, DDX, DDX * alpha)


@second_order("elu", "X DOut DDX", "DX? DDOut?")
def elu_grad_grad(
    X: Tensor, DOut: Tensor, DDX: Tensor, *, alpha: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Where X is positive DDOut = DDX; else DDOut = DDX * alpha * exp(X), DX = DOut * DDOut."""
    dd_out = DDX * torch.where(X > 0, 1.0, alpha * X.exp())
    return DOut * dd_out * (X <= 0), dd_out


@second_order("sqrt", "Out DX DDX", "DOut? DDOut?")
def sqrt_grad_grad(Out: Tensor, DX: Tensor, DDX: Tensor) -> tuple[Tensor, Tensor]:
    """DOut = -DX * DDX / Out, DDOut = DDX / (2 * Out)."""
    return -DX * DDX / Out, 0.5 * DDX / Out


@second_order("square", "X DOut DDX", "DX? DDOut?")
def square_grad_grad(X: Tensor, DOut: Tensor, DDX: Tensor) -> tuple[Tensor, Tensor]:
    """DX = 2 * DOut * DDX, DDOut = 2 * X * DDX."""
    return 2.0 * DOut * DDX, 2.0 * X * DDX


@second_order("reshape2", "DOut DDX", "DDOut?")
def reshape2_grad_grad(DOut: Tensor, DDX: Tensor, **attrs: Any) -> Tensor:
    """DDX in the shape of DOut."""
    return DDX.reshape(DOut.shape)


@second_order(
    "instance_norm",
    "X Scale SavedMean SavedVariance DY DDX? DDScale? DDBias?",
    "DX? DScale? DDY?",
)
def instance_norm_grad_grad(
    X: Tensor,
    Scale: Tensor,
    SavedMean: Tensor,
    SavedVariance: Tensor,
    DY: Tensor,
    DDX: Grad,
    DDScale: Grad,
    DDBias: Grad,
    *,
    epsilon: float = 1e-5,
) -> tuple[Grad, ...]:
    """By differentiating the normalisation twice; the statistics depend on X."""
    x, scale, d_y = (one.detach().requires_grad_() for one in (X, Scale, DY))
    bias = torch.zeros_like(scale, requires_grad=True)
    with torch.enable_grad():
        y = instance_norm(x, scale, bias, epsilon=epsilon)[0]
        first = torch.autograd.grad(y, (x, scale, bias), d_y, create_graph=True)
    pairs = [
        (one, flow)
        for one, flow in zip(first, (DDX, DDScale, DDBias), strict=True)
        if flow is not None
    ]
    outputs, flows = zip(*pairs, strict=True)
    return torch.autograd.grad(outputs, (x, scale, d_y), flows, allow_unused=True)


@second_order("tanh", "Out DOut DDX", "DOut? DDOut?")
def tanh_grad_grad(Out: Tensor, DOut: Tensor, DDX: Tensor) -> tuple[Tensor, Tensor]:
    """DOut = -2 * Out * DOut * DDX, DDOut = DDX * (1 - Out²)."""
    return -2.0 * Out * DOut * DDX, DDX * (1.0 - Out * Out)


@second_order("sigmoid", "Out DOut DDX", "DOut? DDOut?")
def sigmoid_grad_grad(Out: Tensor, DOut: Tensor, DDX: Tensor) -> tuple[Tensor, Tensor]:
    """DOut = DOut * DDX * (1 - 2 * Out), DDOut = DDX * Out * (1 - Out)."""
    return DOut * DDX * (1.0 - 2.0 * Out), DDX * Out * (1.0 - Out)


@second_order("exp", "Out DOut DDX", "DOut? DDOut?")
def exp_grad_grad(Out: Tensor, DOut: Tensor, DDX: Tensor) -> tuple[Tensor, Tensor]:
    """DOut = DOut * DDX, DDOut = Out * DDX."""
    return DOut * DDX, Out * DDX


def _twice(forward_type: str) -> Body:
    """Of an operator of one input and one output, by differentiating it twice."""

    def body(X: Tensor, DOut: Tensor, DDX: Tensor, **attrs: Any) -> tuple[Tensor, ...]:
        forward: Any = defined(forward_type).body
        x, d_out = X.detach().requires_grad_(), DOut.detach().requires_grad_()
        with torch.enable_grad():
            (d_x,) = torch.autograd.grad(forward(x, **attrs), x, d_out, create_graph=True)
        second = torch.autograd.grad(d_x, (x, d_out), DDX, materialize_grads=True)
        return tuple(one.clone() for one in second)  # torch's zeros may have no memory

    return body


# Of one input, which their gradient operators have.
_SMOOTH = "abs acos asin atan cos erf gelu hard_swish log log1p logsigmoid sin softplus softsign"
for _name in f"{_SMOOTH} stanh swish tanh_shrink".split():
    second_order(_name, "X DOut DDX", "DX? DDOut?")(_twice(_name))


def _of_gradient(gradient: Callable[..., Any], values: int) -> Body:
    """By differentiating what a gradient operator computes of so many values and `DOut`."""

    def body(*given: Any, **attrs: Any) -> tuple[Tensor, ...]:
        taken = [one.detach().requires_grad_() for one in given[: values + 1]]
        with torch.enable_grad():
            made = gradient(*taken, **attrs)
        several = made if isinstance(made, tuple) else (made,)
        flows = zip(several, given[values + 1 :], strict=True)
        outputs, slopes = zip(
            *((one, flow) for one, flow in flows if flow is not None), strict=True
        )
        second = torch.autograd.grad(outputs, taken, slopes, materialize_grads=True)
        return tuple(one.clone() for one in second)

    return body


def _norm_grad(X: Tensor, d_Out: Tensor, **attrs: Any) -> Any:
    return norm_grad(X, X, d_Out, **attrs)  # it computes the lengths anew, as they depend on X


for _name, _gradient in (("reciprocal", reciprocal_grad), ("rsqrt", rsqrt_grad)):
    second_order(_name, "Out DOut DDX", "DOut? DDOut?")(_of_gradient(_gradient, 1))
for _name, _gradient in (("bmm", bmm_grad), ("elementwise_pow", elementwise_pow_grad)):
    second_order(_name, "X Y DOut DDX? DDY?", "DX? DY? DDOut?")(_of_gradient(_gradient, 2))
second_order("norm", "X DOut DDX", "DX? DDOut?")(_of_gradient(_norm_grad, 1))


@second_order("pow", "X FactorTensor? DOut DDX", "DX? DDOut?")
def pow_grad_grad(
    X: Tensor, FactorTensor: Grad, DOut: Tensor, DDX: Tensor, *, factor: float = 1.0
) -> Any:
    """DDOut = DDX * factor * X ** (factor - 1), DX = DDX * DOut * the slope of that by X."""
    first = partial(pow_grad, FactorTensor=FactorTensor, factor=factor)
    return _of_gradient(lambda X, d_Out: first(X, d_Out=d_Out), 1)(X, DOut, DDX)


def _chosen(beyond: Callable[..., Tensor]) -> Body:
    """DDOut = DDX where X is beyond Y, else DDY."""

    def body(X: Tensor, Y: Tensor, DOut: Tensor, DDX: Grad, DDY: Grad, *, axis: int = -1) -> Tensor:
        x, y = (one.expand_as(DOut) for one in align_both(X, Y, axis))
        share = indicator(beyond, x, y)
        out = torch.zeros_like(DOut) if DDX is None else share * align(DOut, DDX, axis)
        return out if DDY is None else out + (1.0 - share) * align(DOut, DDY, axis)

    return body


for _name, _beyond in (("elementwise_max", torch.gt), ("elementwise_min", torch.lt)):
    second_order(_name, "X Y DOut DDX? DDY?", "DDOut?")(_chosen(_beyond))


@second_order("stack", "DDX*", "DDY?")
def stack_grad_grad(DDX: list[Grad], *, axis: int = 0) -> Tensor:
    """All DDX along a new dimension; zeros for inputs that have no gradient."""
    like = next(dd for dd in DDX if dd is not None)
    return torch.stack([torch.zeros_like(like) if dd is None else dd for dd in DDX], axis)


@second_order("gather", "Index DDX", "DDOut?")
def gather_grad_grad(Index: Tensor, DDX: Tensor, *, overwrite: bool = True) -> Tensor:
    """The rows of DDX that Index names; zeros for those that `overwrite` left out of the first."""
    rows = Index.reshape(-1)
    out = DDX.index_select(0, rows)
    if not overwrite:
        return out
    numbers = torch.arange(rows.numel(), device=rows.device)
    last = numbers.new_zeros(DDX.shape[0]).index_copy_(0, rows.long(), numbers)
    return out.mul_((last[rows] == numbers).reshape(-1, *(1,) * (out.dim() - 1)))


# Linear operators: from which input to which output, and what their gradient's gradient is of.
_ALIKE = "crop_tensor expand gather_nd mean reduce_mean reduce_sum"
_LINEAR = {name: ("X", "Out", name) for name in _ALIKE.split()} | {"unstack": ("X", "Y", "unstack")}
_LINEAR |= {name: ("Input", "Out", name) for name in ("slice", "strided_slice")}
_LINEAR |= {
    f"{name}2": ("X", "Out", name) for name in ("flatten", "squeeze", "transpose", "unsqueeze")
}
# Those that multiply each element by a number, which hardly ever changes with X.
_BY_ELEMENT = "brelu ceil clip dropout floor hard_shrink hard_sigmoid relu6 round softshrink"

for _name, _row in _LINEAR.items():
    say(f"{_name}_grad", maker=made_of_flows(*_row))
for _name in f"{_BY_ELEMENT} thresholded_relu".split():
    say(f"{_name}_grad", maker=of_the_flow)
