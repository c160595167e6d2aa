"""What names of variables say: gradients, their parts, and places where no variable stands."""

from __future__ import annotations

# In a slot's list: nobody wants the variable of this position.
EMPTY = "@EMPTY@"
# After a variable's name: its gradient. In names of slots too: `X@GRAD`.
GRAD = "@GRAD"
# After a gradient's name: one part of a sum.
RENAME = "@RENAME@"


def without_part(gradient: str) -> str:
    """The gradient that `gradient` is a part of, or is."""
    whole, _, part = gradient.rpartition(RENAME)
    return whole if whole and GRAD not in part else gradient
