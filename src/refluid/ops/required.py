"""What operators require that takes more than one input or attribute to tell."""

from __future__ import annotations

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
            f"operator {op.type} has {there[0]}: the initial states H0 and C0 may be absent only "
            f"at the same time\n{op.made_at}"
        )


def require_columns(X: Tensor, Label: Tensor) -> None:
    """EnforceNotMet, at run time, unless both are of shape (N, 1)."""
    if not X.is_meta and not X.shape[1:] == Label.shape[1:] == (1,):
        raise EnforceNotMet(
            f"the 2nd dimension of scores and labels should be 1, as each row holds one of them, "
            f"but they are {list(X.shape)} and {list(Label.shape)}"
        )
