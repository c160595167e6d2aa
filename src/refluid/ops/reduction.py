"""Sums and means."""

from __future__ import annotations

from torch import Tensor

from refluid.ir.operator import Operator
from refluid.ops.extras import MKLDNN
from refluid.ops.registry import GradOp, gradient, in_place, operator
from refluid.ops.signature import GRAD


@operator("mean", outputs="Out", uses="X", amp="keep", lod="")
def mean(X: Tensor) -> Tensor:
    """The mean of all elements, of shape (1,)."""
    return X.mean().reshape(1)


@gradient("mean", bare=True)
def mean_grad(X: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out / number of elements, everywhere."""
    return (d_Out / X.numel()).expand(X.numel()).view(X.shape).contiguous()


def sum_gradient(op: Operator) -> list[GradOp]:
    """The gradient of a sum is that of the result, for each term: a `scale` by 1."""
    (out,) = op.output("Out")
    return [
        GradOp("scale", {"X": [out + GRAD]}, {"Out": [name + GRAD]}, {"scale": 1.0})
        for name in op.input("X")
    ]


@operator("sum", outputs="Out", extra=MKLDNN, maker=sum_gradient)
def sum(X: list[Tensor]) -> Tensor:
    """The sum of all X, which have one shape."""
    if len(X) == 1:
        return X[0].clone()
    total = X[0] + X[1]
    for term in X[2:]:
        total += term
    return total


@in_place("sum", "X")
def sum_(X: list[Tensor]) -> Tensor:
    """`sum` over the first X."""
    total = X[0]
    for term in X[1:]:
        total += term
    return total
