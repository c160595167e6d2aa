"""From sequences to padded tensors with lengths, and back."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.dtypes import VarType, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ops.registry import gradient, operator
from refluid.ops.required import require_equal
from refluid.ops.sequence.levels import infer_from, outer_sequences_of, sequences_of
from refluid.ops.sequence.padded import pad_rows, unpad_rows

_PADDED = infer_from(
    {
        "Out": lambda X, padded_length: (-1, max(padded_length, 1), *X[1:]),
        "Length": lambda X: (-1,),
    },
    levels={"Out": lambda X: 0, "Length": lambda X: 0},
    dtypes={"Length": VarType.INT64},
)


def _target(sequences: Offsets, padded_length: int) -> int:
    if padded_length == -1:
        return sequences.longest
    if padded_length < sequences.longest:
        raise EnforceNotMet(
            f"padded_length {padded_length} is less than {sequences.longest}, "
            "the length of the longest sequence"
        )
    return padded_length


@operator(
    "sequence_pad",
    outputs="Out Length",
    lod="",
    uses="X",
    differentiable="X",
    views={"Out": "X"},
    infer=_PADDED,
)
def sequence_pad(
    X: Tensor, PadValue: Tensor, *, lod_X: Levels, padded_length: int = -1
) -> tuple[Tensor, Tensor]:
    """X (rows, ...) as Out (sequences, length, ...), PadValue after the end of each sequence.

    padded_length: -1 for the longest sequence. PadValue: one element, or of the shape of a row.
    Length: int64 lengths (sequences,).
    """
    sequences = outer_sequences_of(X, lod_X)
    value = PadValue.reshape(()) if PadValue.numel() == 1 else PadValue.reshape(X.shape[1:])
    out = pad_rows(X, sequences, _target(sequences, padded_length), value)
    return out, sequences.length_tensor(X.device).clone()


@gradient("sequence_pad", views={"d_X": "d_Out"})
def sequence_pad_grad(X: Tensor, d_Out: Tensor, *, lod_X: Levels) -> Tensor:
    """d_Out where there is no padding."""
    return unpad_rows(d_Out, outer_sequences_of(X, lod_X))


def lengths_of(length: Tensor, longest: int) -> Offsets:
    """Sequences of the lengths that a tensor of integers gives; EnforceNotMet above `longest`."""
    sequences = Offsets.of_lengths(length.flatten().tolist())
    if sequences.longest > longest:
        raise EnforceNotMet(f"a length of {sequences.longest} in a tensor padded to {longest}")
    return sequences


@operator(
    "sequence_unpad",
    outputs="Out",
    lod="",
    makes_lod="Out",
    uses="X Length",
    differentiable="X",
    views={"Out": "X"},
    infer=infer_from({"Out": lambda X: (-1, *(X[2:] or (1,)))}, levels={"Out": lambda X: 1}),
)
def sequence_unpad(X: Tensor, Length: Tensor) -> tuple[Tensor, Levels]:
    """The first Length[i] elements of each X[i] (sequences, length, ...), as sequences of rows.

    Rows of one element have shape (rows, 1).
    """
    require_equal("Length", Length, "what counts the rows of X", X.shape[:1])
    sequences = lengths_of(Length, X.shape[1])
    rows = unpad_rows(X, sequences)
    return (rows.unsqueeze(1) if X.dim() == 2 else rows), (sequences,)


@gradient("sequence_unpad", views={"d_X": "d_Out"}, shape_only="X")
def sequence_unpad_grad(X: Tensor, d_Out: Tensor, *, lod_Out: Levels) -> Tensor:
    """d_Out, padded with zeros."""
    rows = d_Out.reshape(-1, *X.shape[2:])
    return pad_rows(rows, sequences_of(rows, lod_Out, "Out"), X.shape[1])


_MASKED = infer_from(
    {
        "Y": lambda X, MaxLenTensor, maxlen: (
            *X,
            maxlen if MaxLenTensor is None and maxlen > 0 else -1,
        )
    },
    dtypes={"Y": None},
)


@operator("sequence_mask", outputs="Y", uses=None, infer=_MASKED)
def sequence_mask(
    X: Tensor, MaxLenTensor: Tensor | None = None, *, maxlen: int = -1, out_dtype: int
) -> Tensor:
    """For lengths X (...) the mask (..., maxlen): 1 before the length, then 0.

    maxlen: MaxLenTensor where given; a negative one is the greatest length.
    """
    length = maxlen if MaxLenTensor is None else int(MaxLenTensor.item())
    if length < 0:
        length = int(X.max()) if X.numel() else 0
    places = torch.arange(length, device=X.device)
    return (places < X.unsqueeze(-1)).to(to_torch(VarType(out_dtype)))
