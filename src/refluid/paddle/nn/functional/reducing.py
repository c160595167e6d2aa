"""What losses end with."""

from __future__ import annotations

from refluid.build import op
from refluid.ir.variable import Variable


def require_reduction(reduction: str, where: str) -> None:
    """ValueError for a reduction that is none."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(
            f"The value of 'reduction' in {where} should be 'sum', 'mean' or 'none', but received "
            f"{reduction}, which is not allowed."
        )


def reduced(loss: Variable, reduction: str, name: str | None) -> Variable:
    """The mean or the sum of a loss, shape (1,), or the loss itself."""
    if reduction == "mean":
        return op("mean", {"X": loss}, name=name)
    if reduction == "sum":
        return op("reduce_sum", {"X": loss}, {"reduce_all": True}, name=name)
    return loss
