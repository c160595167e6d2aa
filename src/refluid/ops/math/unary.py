"""Functions of one variable."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from refluid.kernels.epilogues import laid_as
from refluid.ops.extras import ACTIVATION, Extras
from refluid.ops.infer import infer_like
from refluid.ops.math.broadcasting import conjugate
from refluid.ops.registry import gradient, in_place, operator

aten = torch.ops.aten


@operator(
    "relu",
    gradient_lod="given",
    outputs="Out",
    uses="Out",
    extra=ACTIVATION,
    activation=True,
    recomputable="X",
    stacked="alike",
    by_autograd="always",
)
def relu(X: Tensor) -> Tensor:
    """max(X, 0)."""
    return torch.relu(X)


@in_place("relu", "X")
def relu_(X: Tensor) -> Tensor:
    """`relu` over X."""
    return torch.relu_(X)


@gradient("relu")
def relu_grad(Out: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out where Out is positive, else 0."""
    grad: Tensor = aten.threshold_backward(laid_as(Out, d_Out), Out, 0)
    return grad


@in_place("relu_grad", "d_Out")
def relu_grad_(Out: Tensor, d_Out: Tensor) -> Tensor:
    """`relu_grad` over d_Out."""
    grad = laid_as(Out, d_Out)
    made: Tensor = aten.threshold_backward.grad_input(grad, Out, 0, grad_input=grad)
    return made


@operator(
    "sigmoid",
    gradient_lod="given",
    outputs="Out",
    uses="Out",
    extra=ACTIVATION,
    activation=True,
    recomputable="X",
    stacked="alike",
    by_autograd="always",
)
def sigmoid(X: Tensor) -> Tensor:
    """1 / (1 + exp(-X))."""
    return torch.sigmoid(X)


@gradient("sigmoid")
def sigmoid_grad(Out: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out * Out * (1 - Out)."""
    grad: Tensor = aten.sigmoid_backward(laid_as(Out, d_Out), Out)
    return grad


@operator(
    "tanh",
    gradient_lod="given",
    outputs="Out",
    uses="Out",
    extra=ACTIVATION,
    activation=True,
    recomputable="X",
    stacked="alike",
    by_autograd="always",
)
def tanh(X: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return torch.tanh(X)


@gradient("tanh")
def tanh_grad(Out: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out * (1 - Out²)."""
    grad: Tensor = aten.tanh_backward(laid_as(Out, d_Out), Out)
    return grad


@operator(
    "square", gradient_lod="given", outputs="Out", uses="X", extra=ACTIVATION, by_autograd="always"
)
def square(X: Tensor) -> Tensor:
    """X²."""
    return X * X


@gradient("square")
def square_grad(X: Tensor, d_Out: Tensor) -> Tensor:
    """2 * X * d_Out."""
    return (d_Out * X).mul_(2.0)


@operator(
    "exp", gradient_lod="given", outputs="Out", uses="Out", extra=ACTIVATION, by_autograd="always"
)
def exp(X: Tensor) -> Tensor:
    """e to the power of X; of integers cut towards zero."""
    whole = not (X.is_floating_point() or X.is_complex())
    return torch.exp(X.double()).to(X.dtype) if whole else torch.exp(X)


@gradient("exp")
def exp_grad(Out: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out * Out."""
    return d_Out * conjugate(Out)


@operator(
    "sqrt", gradient_lod="given", outputs="Out", uses="Out", extra=ACTIVATION, by_autograd="always"
)
def sqrt(X: Tensor) -> Tensor:
    """Square root of X."""
    return torch.sqrt(X)


@gradient("sqrt")
def sqrt_grad(Out: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out / (2 * Out)."""
    return d_Out * 0.5 / Out


@operator("rsqrt", gradient_lod="given", outputs="Out", uses="Out", extra=ACTIVATION)
def rsqrt(X: Tensor) -> Tensor:
    """1 / sqrt(X)."""
    return torch.rsqrt(X)


@gradient("rsqrt")
def rsqrt_grad(Out: Tensor, d_Out: Tensor) -> Tensor:
    """-d_Out * Out³ / 2."""
    return d_Out * -0.5 * Out * Out * Out


@operator(
    "reciprocal",
    gradient_lod="given",
    outputs="Out",
    uses="Out",
    extra=ACTIVATION,
    by_autograd="always",
)
def reciprocal(X: Tensor) -> Tensor:
    """1 / X."""
    return torch.reciprocal(X)


@gradient("reciprocal")
def reciprocal_grad(Out: Tensor, d_Out: Tensor) -> Tensor:
    """-d_Out * Out²."""
    return -d_Out * Out * Out


def _define(
    name: str,
    compute: Callable[[Tensor], Tensor],
    doc: str,
    uses: str = "X",
    extra: Extras = ACTIVATION,
    gradient_lod: str = "given",
) -> None:
    def body(X: Tensor) -> Tensor:
        return compute(X)

    body.__name__, body.__doc__ = name, doc
    operator(
        name,
        outputs="Out",
        uses=uses,
        extra=extra,
        infer=infer_like("Out", "X"),
        gradient_lod=gradient_lod,
    )(body)


_define("log", torch.log, "Natural logarithm of X.")
_define("abs", torch.abs, "|X|.")
_define("cos", torch.cos, "Cosine of X.")
_define("sin", torch.sin, "Sine of X.")
_define("log1p", torch.log1p, "Natural logarithm of 1 + X.")
_define("logsigmoid", torch.nn.functional.logsigmoid, "Natural logarithm of the sigmoid of X.")
_define("softplus", torch.nn.functional.softplus, "log(1 + exp(X)).")
_define("softsign", torch.nn.functional.softsign, "X / (1 + |X|).")
_define("tanh_shrink", torch.nn.functional.tanhshrink, "X - tanh(X).")
_define("erf", torch.erf, "Error function of X.", extra={}, gradient_lod="variable")
_define("acos", torch.acos, "Arc cosine of X.", extra={})
_define("asin", torch.asin, "Arc sine of X.", extra={})
_define("atan", torch.atan, "Arc tangent of X.", extra={})


def _define_step(name: str, compute: Callable[[Tensor], Tensor], doc: str) -> None:
    _define(name, compute, doc, uses="")

    def backward(d_Out: Tensor) -> Tensor:
        return torch.zeros_like(d_Out)

    backward.__name__, backward.__doc__ = f"{name}_grad", "Zero everywhere."
    gradient(name)(backward)


_define_step("floor", torch.floor, "X rounded down.")
_define_step("ceil", torch.ceil, "X rounded up.")
_define_step("round", torch.round, "X rounded to the nearest integer.")
