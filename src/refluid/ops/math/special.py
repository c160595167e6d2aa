"""Functions of one variable that Paddle 2 has beside Fluid's."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from refluid.ops.registry import gradient, operator

_TABLE: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "acosh": (torch.acosh, "Inverse hyperbolic cosine."),
    "asinh": (torch.asinh, "Inverse hyperbolic sine."),
    "atanh": (torch.atanh, "Inverse hyperbolic tangent."),
    "cosh": (torch.cosh, "Hyperbolic cosine."),
    "digamma": (torch.digamma, "Derivative of the logarithm of the gamma function."),
    "erfinv": (torch.erfinv, "Inverse error function."),
    "expm1": (torch.expm1, "e to the power of X, minus 1."),
    "i0": (torch.i0, "Modified Bessel function of order 0."),
    "i0e": (torch.special.i0e, "`i0` times e to the power of -|X|."),
    "i1": (torch.special.i1, "Modified Bessel function of order 1."),
    "i1e": (torch.special.i1e, "`i1` times e to the power of -|X|."),
    "lgamma": (torch.lgamma, "Logarithm of the gamma function."),
    "log10": (torch.log10, "Logarithm to the base of 10."),
    "log2": (torch.log2, "Logarithm to the base of 2."),
    "sinh": (torch.sinh, "Hyperbolic sine."),
    "tan": (torch.tan, "Tangent of X in radians."),
    "trunc": (torch.trunc, "The nearest whole number towards zero."),
}
_TESTS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "bitwise_not": (torch.bitwise_not, "Every bit turned."),
    "isfinite_v2": (torch.isfinite, "Whether each element is neither infinite nor nan."),
    "isinf_v2": (torch.isinf, "Whether each element is infinite."),
    "isnan_v2": (torch.isnan, "Whether each element is nan."),
}


def _define(name: str, compute: Callable[[Tensor], Tensor], doc: str, uses: str | None) -> None:
    def body(X: Tensor) -> Tensor:
        return compute(X)

    body.__name__, body.__doc__ = name, doc
    operator(name, outputs="Out", uses=uses)(body)


for _name, (_compute, _doc) in _TABLE.items():
    _define(_name, _compute, _doc, "X")
for _name, (_compute, _doc) in _TESTS.items():
    _define(_name, _compute, _doc, None)


@operator("logit", outputs="Out", uses="X")
def logit(X: Tensor, *, eps: float = 1e-6) -> Tensor:
    """log(X / (1 - X)), X being kept between eps and 1 - eps; nan beyond 0 and 1 with eps 0."""
    return torch.logit(X, eps or None)


@gradient("logit")
def logit_grad(X: Tensor, d_Out: Tensor, *, eps: float = 1e-6) -> Tensor:
    """d_Out / (X * (1 - X)) between eps and 1 - eps, else 0."""
    inside = (eps <= X) & (1 - eps >= X)
    return torch.where(inside, d_Out / (X * (1 - X)), torch.zeros_like(X))


@operator("celu", outputs="Out", uses="X")
def celu(X: Tensor, *, alpha: float = 1.0) -> Tensor:
    """max(0, X) + min(0, alpha * (exp(X / alpha) - 1))."""
    return torch.celu(X, alpha)


@operator("log_softmax", outputs="Out", uses="X", amp="keep")
def log_softmax(X: Tensor, *, axis: int = -1) -> Tensor:
    """Logarithm of the softmax along `axis`."""
    return torch.log_softmax(X, axis)


@operator("softplus_v2", outputs="Out", uses="X")
def softplus_v2(X: Tensor, *, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * X)) / beta; X where beta * X is above the threshold."""
    return torch.nn.functional.softplus(X, beta, threshold)
