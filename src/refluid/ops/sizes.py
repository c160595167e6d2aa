"""Sizes that torch's kernels take for granted: where they are wrong, memory of others is used."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from refluid.core.errors import EnforceNotMet


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


def require_equal(what: str, value: Tensor, other: str, shape: Sequence[int]) -> None:
    """EnforceNotMet where `value` hasn't the shape of the other."""
    if value.shape != tuple(shape) and not value.is_meta:
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
