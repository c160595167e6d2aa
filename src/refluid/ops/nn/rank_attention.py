"""rank_attention: a matrix per pair of ranks, for samples that are ranked among one another."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.ops.registry import operator


@operator(
    "rank_attention", outputs="Out", uses="X RankOffset RankParam", differentiable="RankParam"
)
def rank_attention(X: Tensor, RankOffset: Tensor, RankParam: Tensor, *, MaxRank: int = 3) -> Tensor:
    """For each sample the sum over its competitors of their features times a matrix of the pair.

    X: (N, D). RankOffset, int32 (N, 2 * MaxRank + 1): the sample's own rank, then per competitor
    its rank and its row in X; ranks count from 1, 0 is none. RankParam: MaxRank * MaxRank
    matrices (D, columns) one below the other, that of ranks (own, competitor) at row own *
    MaxRank + competitor. The result is (N, columns).
    """
    width = X.shape[1]
    own, others = RankOffset[:, :1].long() - 1, RankOffset[:, 1:].view(len(X), MaxRank, 2).long()
    rank, row = others[..., 0] - 1, others[..., 1]
    valid = (own >= 0) & (rank >= 0)
    matrix = torch.where(valid, own * MaxRank + rank, torch.zeros_like(rank))
    features = X[torch.where(valid, row, torch.zeros_like(row))] * valid.unsqueeze(2)
    params = RankParam.view(MaxRank * MaxRank, width, -1)
    if X.is_meta:
        return X.new_empty((X.shape[0], params.shape[2]))
    by_pair = X.new_zeros(len(X), len(params), width)
    by_pair = by_pair.scatter_add(1, matrix.unsqueeze(2).expand(-1, -1, width), features)
    return torch.einsum("npd,pdc->nc", by_pair, params)
