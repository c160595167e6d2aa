"""Trees of classes (tree-based deep matching): children of nodes, sampled nodes per layer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from refluid.core.dtypes import VarType, to_torch
from refluid.ops.registry import operator
from refluid.ops.signature import Random

_CHILDREN = 3  # TreeInfo rows hold item, layer and parent before the children


@operator("tdm_child", outputs="Child LeafMask", uses=None)
def tdm_child(
    X: Tensor, TreeInfo: Tensor, *, child_nums: int, dtype: int = 2
) -> tuple[Tensor, Tensor]:
    """The children of nodes X (N, 1) as (N, 1, child_nums), and which of them are leaves.

    TreeInfo: per node item (0 for inner nodes), layer, parent and children (0 for none).
    """
    kind = to_torch(VarType(dtype))
    if X.is_meta:
        out = X.new_empty((*X.shape, child_nums), dtype=kind)
        return out, torch.empty_like(out)
    nodes = X.long()
    children = TreeInfo[nodes, _CHILDREN : _CHILDREN + child_nums].long()
    children = children * ((nodes != 0).unsqueeze(-1) & (children[..., :1] != 0))
    return children.to(kind), (TreeInfo[children, 0] != 0).to(kind)


def _others(nodes: Tensor, positive: Tensor, count: int, drawn: Tensor) -> Tensor:
    """`count` distinct nodes of a layer per row, none of them the positive one."""
    score = drawn.masked_fill(nodes.unsqueeze(0) == positive.unsqueeze(1), -1.0)
    return nodes[score.topk(count, dim=1).indices]


@operator("tdm_sampler", outputs="Out Labels? Mask", uses=None, lod="")
def tdm_sampler(
    X: Tensor,
    Travel: Tensor,
    Layer: Tensor,
    *,
    output_positive: bool = True,
    neg_samples_num_list: Sequence[int] = (),
    layer_offset_lod: Sequence[int] = (),
    seed: int = 0,
    dtype: int = 2,
    random: Random,
) -> tuple[Tensor, Tensor, Tensor]:
    """For each leaf of X (N, 1) and each layer its ancestor and other nodes of that layer.

    Travel: per leaf the ancestor in each layer, 0 where there is none. Layer: the nodes of all
    layers; those of layer l begin at layer_offset_lod[l]. Labels are 1 for ancestors; Mask is 0
    (as are node and label) where a leaf has none. All three are (N, sum over layers).
    """
    kind = to_torch(VarType(dtype))
    width = sum(neg_samples_num_list) + output_positive * len(neg_samples_num_list)
    if X.is_meta:
        out = X.new_empty((X.shape[0], width), dtype=kind)
        return out, torch.empty_like(out), torch.empty_like(out)
    path = Travel[X.reshape(-1).long()].long()
    nodes, labels, masks = [], [], []
    generator = random(seed)
    for layer, (begin, end) in enumerate(pairwise(layer_offset_lod)):
        positive, count = path[:, layer], neg_samples_num_list[layer]
        drawn = torch.rand(len(path), end - begin, generator=generator, device=X.device)
        chosen = _others(Layer.reshape(-1)[begin:end].long(), positive, count, drawn)
        if output_positive:
            chosen = torch.cat([positive.unsqueeze(1), chosen], 1)
        mask = (positive != 0).long().unsqueeze(1).expand(chosen.shape)
        label = torch.zeros_like(chosen)
        label[:, : int(output_positive)] = 1
        nodes.append(chosen * mask)
        labels.append(label * mask)
        masks.append(mask)
    out, label, mask = (torch.cat(parts, 1).to(kind) for parts in (nodes, labels, masks))
    return out, label, mask
