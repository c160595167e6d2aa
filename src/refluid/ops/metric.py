"""Top-k and accuracy."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.ops.infer import infer_by_probing, share_lod_level
from refluid.ops.partial_sort import partially_sorted
from refluid.ops.registry import OperatorDef, gradient, operator


def infer_top_k(definition: OperatorDef, op: Operator) -> None:
    """Fluid's rule: where K is a variable, the last size is what the attribute says."""
    x = op.block.var_recursive(op.input("X")[0])
    if not op.input("K") or not x.has_description():
        infer_by_probing(definition, op)
        return
    shape = (*x.shape[:-1], op.attrs.get("k", 1))
    for slot, kind in (("Out", x.dtype), ("Indices", VarType.INT64)):
        op.block.var_recursive(op.output(slot)[0]).describe(shape=shape, dtype=kind)
    share_lod_level(definition, op)


@operator(
    "top_k",
    gradient_lod="none",
    outputs="Out Indices",
    uses="X Indices",
    differentiable="X",
    infer=infer_top_k,
)
def top_k(X: Tensor, K: Tensor | None = None, *, k: int = 1) -> tuple[Tensor, Tensor]:
    """The k largest elements of the last dimension, largest first, and their int64 positions.

    Equal elements come in the order in which Fluid's partial sort finds them.
    """
    count = k if K is None else int(K.flatten()[0])
    if K is None and not 1 <= k <= X.shape[-1]:
        raise EnforceNotMet(
            f"k has to be at least 1 and at most the size of the last dimension, but is {count}: "
            f"X is {list(X.shape)}"
        )
    if count == 1:
        values, indices = X.max(-1, keepdim=True)
        return values, indices
    return partially_sorted(X, count)


@gradient("top_k", bare=True)
def top_k_grad(X: Tensor, Indices: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out at the chosen positions, zero elsewhere."""
    return torch.zeros_like(X).scatter_(-1, Indices, d_Out)


@operator("accuracy", outputs="Accuracy Correct Total", uses=None, without_lod="Correct Total")
def accuracy(Out: Tensor, Indices: Tensor, Label: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Share of rows in whose Indices (rows, k) the int64 Label (rows, 1) occurs.

    Accuracy is float32 of shape (1,); Correct and Total are int32 counts of shape (1,).
    """
    rows = Indices.shape[0]
    correct = (Indices == Label.reshape(rows, 1)).any(1).sum().reshape(1)
    return (
        correct.float() / rows,
        correct.int(),
        torch.full((1,), rows, dtype=torch.int32, device=Indices.device),
    )
