"""Rows of sequences in another order or number: reshape, reverse, slice, concat."""

from __future__ import annotations

from itertools import chain

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.infer import infer_like
from refluid.ops.registry import GradOp, gradient, operator
from refluid.ops.sequence.levels import infer_from, sequences_of
from refluid.ops.sequence.padded import ranges, take_rows


@operator(
    "sequence_reshape",
    outputs="Out",
    lod="",
    makes_lod="Out",
    uses="X",
    views={"Out": "X"},
    infer=infer_from({"Out": lambda X, new_dim: (-1, new_dim)}, levels={"Out": lambda X: 1}),
)
def sequence_reshape(X: Tensor, *, lod_X: Levels, new_dim: int) -> tuple[Tensor, Levels]:
    """The elements of each sequence of X (rows, width) in rows of new_dim elements.

    EnforceNotMet where a sequence doesn't fill its last row.
    """
    sequences = sequences_of(X, lod_X, levels=1)
    width = X.shape[1]
    if any(length * width % new_dim for length in sequences.lengths):
        raise EnforceNotMet(
            f"sequences of {sequences.lengths} rows of {width} do not fill rows of {new_dim}"
        )
    offsets = Offsets(start * width // new_dim for start in sequences.values)
    return X.reshape(-1, new_dim), (offsets,)


@gradient("sequence_reshape", views={"d_X": "d_Out"})
def sequence_reshape_grad(X: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out in the shape of X."""
    return d_Out.reshape(X.shape)


def _turned_back(op: Operator) -> list[GradOp]:
    """The gradient turned likewise."""
    inputs = {"X": [name + GRAD for name in op.output("Y")]}
    return [GradOp(op.type, inputs, {"Y": [name + GRAD for name in op.input("X")]})]


@operator("sequence_reverse", outputs="Y", maker=_turned_back, infer=infer_like("Y", "X"))
def sequence_reverse(X: Tensor, *, lod_X: Levels) -> Tensor:
    """The rows of each sequence of X back to front."""
    sequences = sequences_of(X, lod_X, levels=1)
    lasts = sequences.tensor(X.device)[1:] - 1
    back = lasts[sequences.owners(X.device)] - sequences.positions(X.device)
    return take_rows(X, back)


def _sliced(X: Tensor, lod_X: Levels, Offset: Tensor, Length: Tensor) -> tuple[Tensor, Offsets]:
    """The rows that are kept, and the sequences that they form."""
    sequences = sequences_of(X, lod_X, levels=1)
    first, length = Offset.flatten().tolist(), Length.flatten().tolist()
    if not len(first) == len(length) == len(sequences):
        raise EnforceNotMet(
            f"{len(sequences)} sequences but {len(first)} offsets and {len(length)} lengths"
        )
    for number, whole in enumerate(sequences.lengths):
        if first[number] < 0 or length[number] < 0 or first[number] + length[number] > whole:
            raise EnforceNotMet(
                f"sequence {number} has {whole} rows: can't take {length[number]} "
                f"from {first[number]} on"
            )
    kept = Offsets.of_lengths(length)
    starts = sequences.tensor()[:-1] + torch.tensor(first, dtype=torch.int64)
    return ranges(starts.to(X.device), kept), kept


@operator(
    "sequence_slice",
    outputs="Out",
    lod="",
    makes_lod="Out",
    uses="X Offset Length",
    differentiable="X",
    infer=infer_from({"Out": lambda X: (-1, *X[1:])}, levels={"Out": lambda X: 0}),
)
def sequence_slice(
    X: Tensor, Offset: Tensor, Length: Tensor, *, lod_X: Levels
) -> tuple[Tensor, Levels]:
    """Of each sequence Length[i] rows from row Offset[i] on; both (sequences, 1) integers."""
    index, kept = _sliced(X, lod_X, Offset, Length)
    return take_rows(X, index), (kept,)


@gradient("sequence_slice")
def sequence_slice_grad(
    X: Tensor, Offset: Tensor, Length: Tensor, d_Out: Tensor, *, lod_X: Levels
) -> Tensor:
    """d_Out at the rows that were kept, zero elsewhere."""
    index, _ = _sliced(X, lod_X, Offset, Length)
    return torch.zeros_like(X).index_copy_(0, index, d_Out)


def _lengths(X: list[Tensor], lods_X: list[Levels]) -> list[list[int]]:
    """The lengths of the sequences of each input."""
    parts = [sequences_of(rows, lod) for rows, lod in zip(X, lods_X, strict=True)]
    if len({len(part) for part in parts}) > 1:
        raise EnforceNotMet(f"inputs have {[len(part) for part in parts]} sequences")
    return [part.lengths for part in parts]


@operator(
    "sequence_concat",
    outputs="Out",
    lod="",
    makes_lod="Out",
    uses="X",
    infer=infer_from({"Out": lambda X: (-1, *X[0][1:])}, levels={"Out": lambda X: X[0]}),
)
def sequence_concat(X: list[Tensor], *, lods_X: list[Levels]) -> tuple[Tensor, Levels]:
    """Sequence i of all X, one after another, becomes sequence i."""
    lengths = _lengths(X, lods_X)
    parts = [torch.split_with_sizes(*one) for one in zip(X, lengths, strict=True)]
    joined = Offsets.of_lengths(map(sum, zip(*lengths, strict=True)))
    return torch.cat(list(chain.from_iterable(zip(*parts, strict=True)))), (joined,)


@gradient("sequence_concat")
def sequence_concat_grad(X: list[Tensor], d_Out: Tensor, *, lods_X: list[Levels]) -> list[Tensor]:
    """The rows of d_Out that came from each X."""
    lengths = _lengths(X, lods_X)
    parts = torch.split_with_sizes(d_Out, list(chain.from_iterable(zip(*lengths, strict=True))))
    return [torch.cat(parts[place :: len(X)]) for place in range(len(X))]
