"""Matrices of every row of one sequence against every row of another, and what is best in them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ops.registry import gradient, operator
from refluid.ops.sequence.levels import infer_from, sequences_of
from refluid.ops.sequence.padded import inside, pad_rows, unpad_rows


def cells(channels: int, rows: Offsets, columns: Offsets, device: torch.device) -> Tensor:
    """Which elements of (sequences, channels, longest, longest) are in a matrix, bool.

    Chosen by it, elements come out as they are stored: matrix by matrix, channel by channel.
    """
    if len(rows) != len(columns):
        raise EnforceNotMet(f"{len(rows)} sequences of rows but {len(columns)} of columns")
    down = inside(rows, rows.longest, device)
    across = inside(columns, columns.longest, device)
    both = down.unsqueeze(2) & across.unsqueeze(1)
    return both.unsqueeze(1).expand(-1, channels, -1, -1)


def _sizes(channels: int, rows: Offsets, columns: Offsets) -> Offsets:
    """How many elements each matrix has."""
    lengths = zip(rows.lengths, columns.lengths, strict=True)
    return Offsets.of_lengths(channels * one * other for one, other in lengths)


@operator(
    "match_matrix_tensor",
    outputs="Out Tmp",
    lod="",
    makes_lod="Out",
    infer=infer_from(
        {"Out": lambda X: (-1, 1), "Tmp": lambda X: (-1, 1)}, levels={"Out": lambda X: 1}
    ),
)
def match_matrix_tensor(
    X: Tensor, Y: Tensor, W: Tensor, *, lod_X: Levels, lod_Y: Levels, dim_t: int = 1
) -> tuple[Tensor, Tensor, Levels]:
    """x W[:, t] y for each row x of sequence i of X, y of sequence i of Y, and t.

    X (n, d), Y (m, e), W (d, dim_t, e). Out: the matrices (dim_t, rows of X, rows of Y), flat,
    one sequence each, (elements, 1). Tmp: X times W, flat.
    """
    if W.shape[1] != dim_t:
        raise EnforceNotMet(f"dim_t is {dim_t} but W has shape {list(W.shape)}")
    left, right = sequences_of(X, lod_X), sequences_of(Y, lod_Y, "Y")
    mask = cells(dim_t, left, right, X.device)
    product = (X @ W.flatten(1)).reshape(-1, dim_t, W.shape[2])
    one, other = _side_by_side(product, Y, left, right)
    matrices = torch.bmm(one.flatten(1, 2), other.transpose(1, 2))
    matrices = matrices.reshape(*one.shape[:3], -1).transpose(1, 2)
    out = matrices[mask].unsqueeze(1)
    return out, product.reshape(-1, 1), (_sizes(dim_t, left, right),)


def _side_by_side(
    product: Tensor, Y: Tensor, left: Offsets, right: Offsets
) -> tuple[Tensor, Tensor]:
    """(sequences, longest, dim_t, e) and (sequences, longest, e), padded."""
    return pad_rows(product, left, left.longest), pad_rows(Y, right, right.longest)


@gradient("match_matrix_tensor")
def match_matrix_tensor_grad(
    X: Tensor,
    Y: Tensor,
    W: Tensor,
    Tmp: Tensor,
    d_Out: Tensor,
    *,
    lod_X: Levels,
    lod_Y: Levels,
    dim_t: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Through both products."""
    left, right = sequences_of(X, lod_X), sequences_of(Y, lod_Y, "Y")
    mask = cells(dim_t, left, right, X.device)
    d_matrices = d_Out.new_zeros(mask.shape)
    d_matrices[mask] = d_Out.flatten()
    turned = d_matrices.transpose(1, 2)
    d_flat = turned.reshape(turned.shape[0], turned.shape[1] * dim_t, turned.shape[3])
    product = Tmp.reshape(-1, dim_t, W.shape[2])
    one, other = _side_by_side(product, Y, left, right)
    d_one = torch.bmm(d_flat, other).reshape(one.shape)
    d_other = torch.bmm(d_flat.transpose(1, 2), one.flatten(1, 2))
    d_product = unpad_rows(d_one, left).flatten(1)
    d_w = (X.t() @ d_product).reshape(W.shape)
    return d_product @ W.flatten(1).t(), unpad_rows(d_other, right).clone(), d_w


def _check_elements(X: Tensor, sizes: Offsets) -> None:
    if X.numel() != sizes.total:
        raise EnforceNotMet(
            f"X has {X.numel()} elements but channels times ROW times COLUMN make {sizes.total}"
        )


@operator(
    "sequence_topk_avg_pooling",
    outputs="Out pos",
    lod="",
    makes_lod="Out",
    uses="X ROW COLUMN pos",
    differentiable="X",
    infer=infer_from(
        {"Out": lambda X, topks, channel_num: (-1, channel_num * len(topks))},
        levels={"Out": lambda X: X},
    ),
)
def sequence_topk_avg_pooling(
    X: Tensor,
    ROW: Tensor,
    COLUMN: Tensor,
    *,
    lod_ROW: Levels,
    lod_COLUMN: Levels,
    topks: Sequence[int],
    channel_num: int,
) -> tuple[Tensor, Tensor, Levels]:
    """For each row of each matrix the means of its k greatest elements, for every k of topks.

    X: matrices (channel_num, rows, columns) as long as the sequences of ROW and COLUMN, flat.
    Out: (rows of ROW, channel_num * len(topks)) in the sequences of ROW; a missing element counts
    as 0. pos: int32 columns of the max(topks) greatest, -1 for missing ones.
    """
    rows, columns = sequences_of(ROW, lod_ROW, "ROW"), sequences_of(COLUMN, lod_COLUMN, "COLUMN")
    mask = cells(channel_num, rows, columns, X.device)
    _check_elements(X, _sizes(channel_num, rows, columns))
    matrices = X.new_full(mask.shape, float("-inf"))
    matrices[mask] = X.flatten()
    found = min(max(topks), columns.longest)
    values, places = matrices.topk(found, -1)
    missing = torch.isinf(values) & (values < 0)
    sums = values.masked_fill(missing, 0.0).cumsum(-1)
    means = torch.stack([_mean(sums, k, found) for k in topks], -1)
    absent = places.new_full((*places.shape[:-1], max(topks) - found), -1)
    places = torch.cat((places.masked_fill(missing, -1), absent), -1)
    out = unpad_rows(means.transpose(1, 2), rows).flatten(1)
    return out, unpad_rows(places.transpose(1, 2), rows).flatten(1).int(), (rows,)


def _mean(sums: Tensor, k: int, found: int) -> Tensor:
    if not found:
        return sums.new_zeros(sums.shape[:-1])
    return sums[..., min(k, found) - 1] / k


@gradient("sequence_topk_avg_pooling")
def sequence_topk_avg_pooling_grad(
    X: Tensor,
    ROW: Tensor,
    COLUMN: Tensor,
    pos: Tensor,
    d_Out: Tensor,
    *,
    lod_ROW: Levels,
    lod_COLUMN: Levels,
    topks: Sequence[int],
    channel_num: int,
) -> Tensor:
    """Each of the k greatest gets 1 / k of the gradient of their mean."""
    rows, columns = sequences_of(ROW, lod_ROW, "ROW"), sequences_of(COLUMN, lod_COLUMN, "COLUMN")
    mask = cells(channel_num, rows, columns, X.device)
    shares = torch.tensor(
        [[1.0 / k if rank < k else 0.0 for rank in range(max(topks))] for k in topks],
        dtype=d_Out.dtype,
        device=d_Out.device,
    )
    d_ranks = d_Out.reshape(-1, channel_num, len(topks)) @ shares
    places = pos.long().reshape(d_ranks.shape)
    d_ranks = d_ranks.masked_fill(places < 0, 0.0)
    places, d_ranks = (
        pad_rows(one, rows, rows.longest).transpose(1, 2) for one in (places.clamp(min=0), d_ranks)
    )
    d_matrices = d_Out.new_zeros(mask.shape)
    if d_matrices.numel():
        d_matrices.scatter_add_(-1, places, d_ranks)
    return d_matrices[mask].reshape(X.shape)
