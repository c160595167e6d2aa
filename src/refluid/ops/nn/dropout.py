"""Dropout."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from refluid.ir.checks import one_of
from refluid.kernels.epilogues import dropout_loops
from refluid.ops.bounded import Probability, Training
from refluid.ops.registry import gradient, operator
from refluid.ops.signature import Random

_WAYS = ("downgrade_in_infer", "upscale_in_train")


@operator(
    "dropout",
    gradient_lod="given",
    outputs="Out Mask",
    uses="Mask",
    differentiable="X",
    seeded="Seed",
    views={"Out": "X"},
    without_lod="Mask",
    by_autograd="always",
)
def dropout(
    X: Tensor,
    Seed: Tensor | None = None,
    *,
    dropout_prob: Probability = 0.5,
    is_test: bool = False,
    fix_seed: bool = False,
    seed: int = 0,
    dropout_implementation: Annotated[str, one_of(*_WAYS)] = "downgrade_in_infer",
    random: Random,
) -> tuple[Tensor, Tensor | None]:
    """X with each element set to zero with probability `dropout_prob`.

    `upscale_in_train` divides what is kept by 1 - dropout_prob; `downgrade_in_infer` multiplies
    by that in inference instead. Mask is uint8: 1 where an element was kept.
    """
    if is_test:
        upscale = dropout_implementation == "upscale_in_train"
        return (X if upscale else X * (1.0 - dropout_prob)), None
    if dropout_prob == 0.0:
        return X, torch.ones_like(X, dtype=torch.uint8)
    chosen = int(Seed.item()) if Seed is not None else seed if fix_seed else 0
    divisor = _divisor(dropout_prob, dropout_implementation)
    if (loops := dropout_loops(X)) is not None and dropout_prob < 1.0:
        key = torch.empty(1, dtype=torch.int64).random_(generator=random(chosen))
        found: tuple[Tensor, Tensor] = loops.dropped(X, key, dropout_prob, divisor)
        return found
    drawn = torch.empty_like(X, dtype=torch.float32).uniform_(generator=random(chosen))
    keep = drawn >= dropout_prob
    out = X * keep
    if divisor != 1.0:
        out /= divisor
    return out, keep.to(torch.uint8)


def _divisor(dropout_prob: float, dropout_implementation: str) -> float:
    """What training divides that which is kept by."""
    upscale = dropout_implementation == "upscale_in_train" and dropout_prob < 1.0
    return 1.0 - dropout_prob if upscale else 1.0


@gradient("dropout")
def dropout_grad(
    Mask: Tensor,
    d_Out: Tensor,
    *,
    dropout_prob: float = 0.5,
    is_test: Training = False,
    dropout_implementation: str = "downgrade_in_infer",
) -> Tensor:
    """d_Out where the mask is 1, scaled as the forward was."""
    divisor = _divisor(dropout_prob, dropout_implementation)
    if (loops := dropout_loops(d_Out, Mask)) is not None:
        found: Tensor = loops.kept(d_Out, Mask, divisor)
        return found
    grad = d_Out * Mask
    if divisor != 1.0:
        grad /= divisor
    return grad
