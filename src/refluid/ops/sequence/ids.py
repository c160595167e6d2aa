"""Sequences of numbers: windows of them, without some of them, and as places to add to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ops.infer import infer_like
from refluid.ops.registry import gradient, operator
from refluid.ops.required import require_single
from refluid.ops.sequence.context import context_index
from refluid.ops.sequence.levels import infer_from, outer_sequences_of, sequences_of


@operator(
    "sequence_enumerate",
    outputs="Out",
    uses=None,
    extra={"@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@": True},
    infer=infer_from({"Out": lambda X, win_size: (X[0], win_size)}),
)
def sequence_enumerate(X: Tensor, *, lod_X: Levels, win_size: int, pad_value: int = 0) -> Tensor:
    """Each number of X (n, 1) and those after it, (n, win_size); pad_value after the end."""
    sequences = outer_sequences_of(X, lod_X)
    require_single("X", X)
    flat = torch.cat((X.flatten(), X.new_full((1,), pad_value)))
    return flat[context_index(sequences, range(win_size), False, X.device)]


# So many numbers are looked for one by one.
_FEW = 8


def keep(kept: Tensor, sequences: Offsets) -> Offsets:
    """The sequences that the rows chosen by the bool tensor `kept` (n,) form."""
    before = torch.zeros(len(kept) + 1, dtype=torch.int64, device=kept.device)
    torch.cumsum(kept, 0, out=before[1:])
    return Offsets(before[sequences.tensor(kept.device)].cpu().numpy())


@operator(
    "sequence_erase",
    outputs="Out",
    uses=None,
    lod="",
    makes_lod="Out",
    infer=infer_from({"Out": lambda X: X}, levels={"Out": lambda X: X}),
)
def sequence_erase(X: Tensor, *, lod_X: Levels, tokens: Sequence[int]) -> tuple[Tensor, Levels]:
    """The sequences of numbers X (n, 1) without those in `tokens`."""
    sequences = sequences_of(X, lod_X)
    require_single("X", X)
    numbers = X.flatten()
    if len(tokens) > _FEW:
        kept = ~torch.isin(numbers, torch.tensor(list(tokens), dtype=X.dtype, device=X.device))
    else:
        kept = torch.ones_like(numbers, dtype=torch.bool)
        for token in tokens:
            kept &= numbers != token
    return X[kept], (*lod_X[:-1], keep(kept, sequences))


def _flat_places(X: Tensor, Ids: Tensor, lod_Ids: Levels) -> Tensor:
    """Where in X, as one row of numbers, each of Ids points to."""
    sequences = sequences_of(Ids, lod_Ids, "Ids", levels=1)
    if len(sequences) != X.shape[0]:
        raise EnforceNotMet(f"X has {X.shape[0]} rows but Ids {len(sequences)} sequences")
    width = X.numel() // max(X.shape[0], 1)
    return sequences.owners(X.device) * width + Ids.flatten().long()


@operator(
    "sequence_scatter",
    gradient_lod="none",
    outputs="Out",
    uses="Ids Updates",
    differentiable="X Updates",
    lod="",
    infer=infer_like("Out", "X"),
)
def sequence_scatter(X: Tensor, Ids: Tensor, Updates: Tensor, *, lod_Ids: Levels) -> Tensor:
    """X with Updates (n, 1) added, in row i at the places that sequence i of Ids (n, 1) says.

    A row of X with more than one dimension counts as flat.
    """
    places = _flat_places(X, Ids, lod_Ids)
    flat = X.flatten().index_add(0, places, Updates.flatten().to(X.dtype))
    return flat.reshape(X.shape)


@gradient("sequence_scatter", views={"d_X": "d_Out"}, makes_lod="d_Updates")
def sequence_scatter_grad(
    Ids: Tensor, Updates: Tensor, d_Out: Tensor, *, lod_Ids: Levels
) -> tuple[Tensor, Tensor, Levels]:
    """d_Out, and what of it is at the places that were added to, as a plain tensor."""
    places = _flat_places(d_Out, Ids, lod_Ids)
    return d_Out, d_Out.flatten()[places].reshape(Updates.shape), ()
