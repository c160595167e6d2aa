"""Hierarchical sigmoid: a class is a leaf of a binary tree, its loss that of the turns to it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.selected_rows import SelectedRows
from refluid.ir.operator import Operator
from refluid.ops.registry import OperatorDef, gradient, operator
from refluid.ops.required import require_rows
from refluid.ops.signature import Longs

_BOUND = 40.0


def _infer(definition: OperatorDef, op: Operator) -> None:
    source = op.block.var_recursive(op.input("X")[0])
    if source.has_description():
        for name in op.output("Out"):
            op.block.var_recursive(name).describe(shape=(source.shape[0], 1), dtype=source.dtype)


def _paths(
    label: Tensor, table: Tensor | None, code: Tensor | None, classes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Of each row, from leaf to root: nodes, turns (1 for right), and which of them there are."""
    if table is not None and code is not None:
        inside = table >= 0
        return table.clamp(min=0).long(), (code == 1) & inside, inside
    leaf = label.reshape(-1, 1).long() + classes
    height = max(classes - 1, 1).bit_length()
    bits = torch.arange(height, device=label.device)
    inside = (leaf >> (bits + 1)) > 0
    nodes = ((leaf >> (bits + 1)) - 1).clamp(min=0)
    return nodes, (((leaf >> bits) & 1) == 1) & inside, inside


@operator(
    "hierarchical_sigmoid",
    classes="Label",
    layer="hsigmoid",
    outputs="Out PreOut W_Out?",
    differentiable="X W Bias",
    lod="",
    views={"W_Out": "W"},
    infer=_infer,
)
def hierarchical_sigmoid(
    X: Tensor,
    W: Tensor,
    Label: Tensor,
    PathTable: Tensor | None = None,
    PathCode: Tensor | None = None,
    Bias: Tensor | None = None,
    *,
    num_classes: int = 2,
    remote_prefetch: bool = False,
    trainer_id: int = 0,
    height_sections: Longs = (),
    epmap: Sequence[str] = (),
    table_names: Sequence[str] = (),
    is_sparse: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Sum of the logistic losses of the turns from the root to each row's Label, (rows, 1).

    X (rows, width), W (inner nodes, width), Bias (inner nodes, 1), Label int64 (rows, 1).
    PathTable and PathCode (rows, longest path) name the nodes and turns of a tree of one's own,
    -1 where a path is shorter; else the tree is complete, its leaves the classes. PreOut holds
    log(1 + exp(score)) per node. As in Fluid a node that a path lacks adds log 2 to the loss.
    """
    require_rows("Label", Label, "X", X.shape[0])
    nodes, right, inside = _paths(Label, PathTable, PathCode, num_classes)
    scores = torch.bmm(torch.embedding(W, nodes), X.unsqueeze(2)).squeeze(2)
    if Bias is not None:
        scores = scores + Bias.reshape(-1)[nodes]
    scores = (scores * inside).clamp(-_BOUND, _BOUND)
    soft = torch.log1p(torch.exp(scores))
    return soft.sum(1, keepdim=True) - (scores * right).sum(1, keepdim=True), soft, W


@gradient("hierarchical_sigmoid", sparse="d_W")
def hierarchical_sigmoid_grad(
    X: Tensor,
    W: Tensor,
    Label: Tensor,
    PathTable: Tensor | None,
    PathCode: Tensor | None,
    Bias: Tensor | None,
    PreOut: Tensor,
    d_Out: Tensor,
    *,
    num_classes: int = 2,
    is_sparse: bool = False,
) -> tuple[Tensor, Tensor | SelectedRows, Tensor | None]:
    """Gradients of X, W (rows of the nodes seen where is_sparse) and Bias."""
    nodes, right, inside = _paths(Label, PathTable, PathCode, num_classes)
    grad = (-torch.expm1(-PreOut) - right.to(PreOut.dtype)) * inside * d_Out.reshape(-1, 1)
    d_x = torch.bmm(grad.unsqueeze(1), torch.embedding(W, nodes)).squeeze(1)
    seen = nodes.reshape(-1)
    values = (grad.unsqueeze(2) * X.unsqueeze(1)).reshape(-1, X.shape[1])
    d_bias = None
    if Bias is not None:
        flat = grad.new_zeros(Bias.numel()).index_add_(0, seen, grad.reshape(-1))
        d_bias = flat.view(Bias.shape)
    if is_sparse:
        kept = inside.reshape(-1).nonzero().view(-1)
        return d_x, SelectedRows(seen[kept], W.shape[0], values[kept]), d_bias
    return d_x, torch.zeros_like(W).index_add_(0, seen, values), d_bias
