"""Sums and means."""

from __future__ import annotations

from torch import Tensor

from refluid.core.selected_rows import SelectedRows
from refluid.ir.operator import Operator
from refluid.ops.extras import MKLDNN
from refluid.ops.infer import infer_by_probing
from refluid.ops.registry import GradOp, gradient, in_place, operator
from refluid.ops.signature import GRAD
from refluid.ops.sparse import same_kind, total


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


@operator(
    "sum", outputs="Out", extra=MKLDNN, maker=sum_gradient, infer=same_kind(infer_by_probing)
)
def sum(X: list[Tensor | SelectedRows]) -> Tensor | SelectedRows:
    """The sum of all X, which have one shape; sparse where all of them are."""
    if len(X) == 1:
        return X[0].clone()
    return total(X)


@in_place("sum", "X")
def sum_(X: list[Tensor | SelectedRows]) -> Tensor | SelectedRows:
    """`sum` over the first X."""
    return total(X, over=isinstance(X[0], Tensor))
