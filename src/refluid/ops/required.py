"""What operators require of their inputs together: where torch takes sizes for granted that are
wrong, memory of others is used, or rows are left out."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator


def require_axis(X: Tensor, axis: int) -> None:
    """EnforceNotMet where `axis` is no dimension of X."""
    if not -X.dim() <= axis < X.dim():
        raise EnforceNotMet(
            f"Attr(axis) value should be in range [-R, R-1], R is the rank of Input(X), but axis "
            f"is {axis} and X {list(X.shape)}"
        )


def require_states(op: Operator) -> None:
    """EnforceNotMet where an LSTM is given only one of its initial states."""
    there = [slot for slot in ("H0", "C0") if op.input(slot)]
    if len(there) == 1:
        raise EnforceNotMet(
            f"{there[0]} is given alone: the initial states H0 and C0 may be absent only at the "
            "same time"
        )


def require_columns(X: Tensor, Label: Tensor) -> None:
    """EnforceNotMet, at run time, unless both are of shape (N, 1)."""
    if not X.is_meta and not X.shape[1:] == Label.shape[1:] == (1,):
        raise EnforceNotMet(
            f"the 2nd dimension of scores and labels should be 1, as each row holds one of them, "
            f"but they are {list(X.shape)} and {list(Label.shape)}"
        )


def require_channels(count: int, **vectors: Tensor | None) -> None:
    """EnforceNotMet where one of the named vectors hasn't one number for each of the channels."""
    for name, vector in vectors.items():
        if vector is None:
            raise EnforceNotMet(f"{name} has no value")
        if vector.numel() != count:
            raise EnforceNotMet(
                f"{name} has shape {list(vector.shape)}, but X has {count} channels: it needs one "
                "number for each of them"
            )


def require_equal(
    what: str, value: Tensor, other: str, shape: Sequence[int], *, declared: bool = False
) -> None:
    """EnforceNotMet where `value` hasn't the shape of the other. declared: also of shapes alone."""
    if value.shape != tuple(shape) and (declared or not value.is_meta):
        raise EnforceNotMet(
            f"{what} has shape {list(value.shape)}, but {other} has shape {list(shape)}: they "
            "must be equal"
        )


def require_rows(what: str, value: Tensor, other: str, rows: int) -> None:
    """EnforceNotMet where `value` hasn't as many rows as the other has."""
    if value.shape[:1] != (rows,) and not value.is_meta:
        raise EnforceNotMet(
            f"{what} has shape {list(value.shape)}, but {other} has {rows} rows: it needs as many"
        )


def require_index(what: str, value: Tensor) -> None:
    """EnforceNotMet unless numbers of rows are (n,) or (n, 1)."""
    if value.dim() > 1 and (value.dim() > 2 or value.shape[1] != 1):
        raise EnforceNotMet(
            f"The last dim of index should be 1 when it is 2D, but {what} is {list(value.shape)}"
        )


def require_updates(X: Tensor, Index: Tensor, Updates: Tensor) -> None:
    """EnforceNotMet unless Updates has what the last dimension of Index names of X."""
    named = (*Index.shape[:-1], *X.shape[Index.shape[-1] :])
    require_equal("Updates", Updates, "what Index names", named)


def require_single(what: str, value: Tensor) -> None:
    """EnforceNotMet unless each row of `value` holds one number."""
    if value.numel() != len(value) and not value.is_meta:
        raise EnforceNotMet(
            f"{what} has shape {list(value.shape)}, but each of its rows has to hold one number: "
            f"reshape it to ({len(value)}, 1), or feed it so"
        )


def require_labels(X: Tensor, Label: Tensor, axis: int = -1, *, may_lack: bool = False) -> None:
    """EnforceNotMet unless there is one label where X has the classes, along the axis.

    may_lack: labels may be without that dimension.
    """
    if Label.is_meta:
        return
    wanted = [*X.shape]
    wanted[axis] = 1
    if [*Label.shape] != wanted and not (may_lack and [*Label.shape] == wanted[:-1]):
        raise EnforceNotMet(
            f"If Attr(soft_label) == false, the axis dimension of Input(Label) should be 1 and the "
            f"others those of the scores, but Label is {list(Label.shape)}, the scores are "
            f"{list(X.shape)} and axis is {axis}"
        )
