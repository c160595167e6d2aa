"""Tree-based convolution (Mou et al., arXiv 1409.5718): windows are subtrees."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.ops.registry import operator


def _adjacency(EdgeSet: Tensor, nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """(children, their position among siblings, whether a node exists), from (B, E, 2) edges.

    Nodes are counted from 1; the list of edges ends before the first one with a 0. children and
    position are (B, nodes, nodes), position being 0 .. 1 from the first child to the last.
    """
    edges = EdgeSet.long()
    valid = (edges > 0).all(-1).long().cumprod(1).bool()
    parent, child = (edges.clamp(1, nodes) - 1).unbind(-1)
    batch = torch.arange(len(edges), device=edges.device).unsqueeze(1).expand(parent.shape)
    same = (parent.unsqueeze(2) == parent.unsqueeze(1)) & valid.unsqueeze(1) & valid.unsqueeze(2)
    before = same.tril(-1).sum(2).double()
    siblings = same.sum(2).double()
    place = torch.where(siblings == 1, 0.5, before / (siblings - 1).clamp(min=1))
    children = torch.zeros(len(edges), nodes, nodes, dtype=torch.float64, device=edges.device)
    position = torch.zeros_like(children)
    kept = batch[valid], parent[valid], child[valid]
    children[kept] = 1.0
    position[kept] = place[valid]
    exists = torch.arange(nodes, device=edges.device) <= valid.sum(1, keepdim=True)
    return children, position, exists


def _weights(EdgeSet: Tensor, nodes: int, max_depth: int, dtype: torch.dtype) -> Tensor:
    """How much node v counts in the window below node u, left, right and top: (B, 3, u, v).

    A node counts once in a window, where it is met first: edges may lead back to it.
    """
    children, position, exists = _adjacency(EdgeSet, nodes)
    own = position.sum(1)  # a node's position among its siblings
    reached = torch.diag_embed(exists.double())
    met = torch.zeros_like(reached, dtype=torch.bool)
    left, right, top = (torch.zeros_like(children) for _ in range(3))
    for depth in range(max_depth):
        up = (max_depth - depth) / max_depth
        aside = own if depth else torch.full_like(own, 0.5)
        share = (1.0 - up) * aside.unsqueeze(1)
        left += reached * share
        right += reached * (1.0 - up) * (1.0 - share)
        top += reached * up
        met |= reached > 0
        reached = (reached @ children > 0).logical_and(~met).to(reached.dtype)
    return torch.stack([left, right, top], 1).to(dtype)


@operator(
    "tree_conv",
    outputs="Out",
    uses="NodesVector EdgeSet Filter",
    differentiable="NodesVector Filter",
)
def tree_conv(
    NodesVector: Tensor, EdgeSet: Tensor, Filter: Tensor, *, max_depth: int = 2
) -> Tensor:
    """Windows of `max_depth` levels below each node, folded with Filter.

    NodesVector: (B, nodes, features); EdgeSet: (B, edges, 2), parent and child counted from 1, 0
    for no edge; Filter: (features, 3, size, filters) for the left, right and top weights. The
    result is (B, nodes, size, filters), zero for nodes that the edges don't reach.
    """
    nodes = NodesVector.shape[1]
    if NodesVector.is_meta:
        return NodesVector.new_empty((*NodesVector.shape[:2], *Filter.shape[2:]))
    with torch.no_grad():
        weights = _weights(EdgeSet, nodes, max_depth, NodesVector.dtype)
    windows = torch.einsum("bkuv,bvf->bufk", weights, NodesVector)
    return torch.einsum("bufk,fkoc->buoc", windows, Filter)
