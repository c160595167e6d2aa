"""pyramid_hash: embeddings of n-grams, cut from one vector at places that hashes tell."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.operator import Operator
from refluid.ops.infer import share_lod_level
from refluid.ops.nn.hashing import row_hashes
from refluid.ops.registry import OperatorDef, gradient, operator
from refluid.ops.signature import Random


def _ngrams(offsets: Offsets, size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """(first rows, sequences) of all runs of `size` rows within one sequence."""
    last = offsets.tensor(device)[1:][offsets.owners(device)]
    first = torch.arange(offsets.total, device=device)
    first = first[first + size <= last]
    return first, offsets.owners(device)[first]


def _places(X: Tensor, first: Tensor, size: int, chunks: int, space: int) -> Tensor:
    """Where in W each of the chunks of each n-gram begins: (n-grams, chunks)."""
    words = X.reshape(-1)[first.unsqueeze(1) + torch.arange(size, device=X.device)]
    return row_hashes(words, chunks, space)


def _infer_embedded(definition: OperatorDef, op: Operator) -> None:
    weight = op.block.var_recursive(op.input("W")[0])
    size = op.attrs.get("num_emb", 0)
    op.block.var_recursive(op.output("Out")[0]).describe(shape=(-1, size), dtype=weight.dtype)
    share_lod_level(definition, op)


@operator(
    "pyramid_hash",
    outputs="Out DropPos X_Temp_Out",
    uses="X W DropPos X_Temp_Out",
    differentiable="X",
    makes_lod="Out",
    infer=_infer_embedded,
)
def pyramid_hash(
    X: Tensor,
    W: Tensor,
    WhiteList: Tensor | None = None,
    BlackList: Tensor | None = None,
    *,
    num_emb: int = 0,
    space_len: int = 0,
    pyramid_layer: int = 2,
    rand_len: int = 0,
    drop_out_percent: float = 0.0,
    is_training: int = 0,
    use_filter: bool = True,
    white_list_len: int = 0,
    black_list_len: int = 0,
    seed: int = 0,
    lr: float = 0.0,
    distribute_update_vars: str = "",
    lod_X: Levels = (),
    random: Random,
) -> tuple[Tensor, Tensor, Tensor, Levels]:
    """For each run of 2 .. pyramid_layer rows of a sequence of X (N, 1) a vector of num_emb.

    It is made of num_emb / rand_len pieces of W (space_len + rand_len, 1). In training runs are
    left out with probability drop_out_percent. DropPos: where each piece begins.
    """
    chunks = num_emb // rand_len
    if use_filter and (white_list_len or black_list_len):
        raise EnforceNotMet("pyramid_hash: refluid reads no white or black lists (use_filter)")
    if not lod_X:
        raise EnforceNotMet("pyramid_hash: X must consist of sequences (a LoDTensor)")
    offsets = lod_X[-1]
    places, owners = [], []
    for size in range(2, pyramid_layer + 1):
        first, owner = _ngrams(offsets, size, X.device)
        places.append(_places(X, first, size, chunks, space_len))
        owners.append(owner)
    place, owner = torch.cat(places), torch.cat(owners)
    if is_training and drop_out_percent > 0:
        drawn = torch.rand(len(owner), generator=random(seed), device=X.device)
        place, owner = place[drawn >= drop_out_percent], owner[drawn >= drop_out_percent]
    owner, order = owner.sort(stable=True)
    place = place[order]
    pieces = W.reshape(-1)[place.unsqueeze(2) + torch.arange(rand_len, device=X.device)]
    counts = torch.bincount(owner, minlength=len(offsets))
    made = Offsets.of_lengths(counts.tolist())
    return pieces.reshape(len(place), num_emb), place, X, (made,)


@gradient("pyramid_hash")
def pyramid_hash_grad(
    X: Tensor,
    W: Tensor,
    DropPos: Tensor,
    X_Temp_Out: Tensor,
    d_Out: Tensor,
    *,
    rand_len: int = 0,
    lr: float = 0.0,
    need: Sequence[bool] = (True,),
) -> Tensor:
    """Moves W by -lr * gradient, as Fluid does; the gradient of X is zero."""
    rows = DropPos.unsqueeze(2) + torch.arange(rand_len, device=W.device)
    W.view(-1).index_add_(0, rows.reshape(-1), d_Out.reshape(-1), alpha=-lr)
    return torch.zeros_like(X)
