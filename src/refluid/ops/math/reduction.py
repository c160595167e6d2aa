"""Sums and means."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from refluid.core.lod_tensor import LoDTensorArray
from refluid.core.selected_rows import SelectedRows
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.drafts import of_ranks
from refluid.ops.extras import MKLDNN
from refluid.ops.infer import infer_by_probing
from refluid.ops.registry import GradOp, gradient, in_place, operator
from refluid.ops.signature import AnyValue
from refluid.ops.sparse.sparse import same_kind, total
from refluid.ops.tensor.array_sums import sum_of_arrays


@operator("mean", outputs="Out", uses="X", amp="keep", lod="", by_autograd="always")
def mean(X: Tensor) -> Tensor:
    """The mean of all elements, of shape (1,)."""
    return X.mean().reshape(1)


@of_ranks("mean")
def _mean_of_losses(ranks: tuple[int | None, ...]) -> Callable[[Tensor], Tensor] | None:
    """Of one number for each sample, as losses give: torch's mean has the shape at once."""
    if ranks != (2,):
        return None
    return lambda x: x.mean(0) if x.shape[1] == 1 else x.mean().reshape(1)


@gradient("mean", bare=True)
def mean_grad(X: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out / number of elements, everywhere."""
    return torch.empty_like(X).copy_(d_Out / X.numel())


def sum_gradient(op: Operator) -> list[GradOp]:
    """The gradient of a sum is that of the result, for each term: a `scale` by 1."""
    (out,) = op.output("Out")
    return [
        GradOp("scale", {"X": [out + GRAD]}, {"Out": [name + GRAD]}, {"scale": 1.0})
        for name in op.input("X")
    ]


@operator(
    "sum",
    outputs="Out",
    extra=MKLDNN,
    maker=sum_gradient,
    infer=same_kind(infer_by_probing),
    starts_without="X",
    adds=True,
    by_autograd="always",
)
def sum(X: list[AnyValue]) -> Tensor | SelectedRows | LoDTensorArray | None:
    """The sum of all X, which have one shape; sparse where all of them are.

    Arrays are added element by element. A variable without a value counts for nothing; the sum of
    such alone has none either, as gradients of what no branch or loop came to make.
    """
    terms = [one for one in X if one is not None]
    if not terms:
        return None
    if isinstance(terms[0], LoDTensorArray):
        return sum_of_arrays(terms)
    return terms[0].clone() if len(terms) == 1 else total(terms)


@in_place("sum", "X")
def sum_(X: list[AnyValue]) -> Tensor | SelectedRows | LoDTensorArray | None:
    """`sum` over the first X."""
    if any(not isinstance(one, Tensor | SelectedRows) for one in X):
        added: Tensor | SelectedRows | LoDTensorArray | None = sum(X)
        return added
    return total(X, over=isinstance(X[0], Tensor))
