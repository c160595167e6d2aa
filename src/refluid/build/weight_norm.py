"""Weight normalisation: a parameter as direction v and length g, w = g * v / |v|.

After Salimans and Kingma (2016), https://arxiv.org/abs/1602.07868; what is normalised over is
documented at `fluid.WeightNormParamAttr`. The names `w_v` and `w_g` are refluid's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build.operators import apply
from refluid.core import names
from refluid.ir.block import Block
from refluid.ir.variable import Variable


def kept_shape(shape: Sequence[int], dim: int | None) -> list[int]:
    """Shape of the lengths: one per index of `dim`, or a single one where dim is None."""
    if dim is None:
        return [1] * len(shape)
    axis = dim + len(shape) if dim < 0 else dim
    if not 0 <= axis < len(shape):
        raise ValueError(f"WeightNormParamAttr: dim {dim} of a parameter of shape {list(shape)}")
    return [size if place == axis else 1 for place, size in enumerate(shape)]


def append_length(block: Block, direction: Variable, dim: int | None, out: Variable) -> None:
    """Appends operators that write |v| over all dimensions but `dim` to `out`."""
    squared = _temporary(block, direction)
    total = _temporary(block, direction)
    apply("square", {"X": direction}, {"Out": squared}, block=block)
    kept = None if dim is None else dim % len(direction.shape)
    attrs: dict[str, Any] = {
        "dim": [place for place in range(len(direction.shape)) if place != kept],
        "keep_dim": dim is not None,
        "reduce_all": dim is None,
    }
    apply("reduce_sum", {"X": squared}, {"Out": total}, attrs, block=block)
    apply("sqrt", {"X": total}, {"Out": out}, block=block)


def append_weight(block: Block, direction: Variable, length: Variable, dim: int | None) -> Variable:
    """Appends the operators of w = v * (g / |v|); the variable w."""
    norm, scale, weight = (_temporary(block, direction) for _ in range(3))
    append_length(block, direction, dim, norm)
    apply("elementwise_div", {"X": length, "Y": norm}, {"Out": scale}, block=block)
    apply("elementwise_mul", {"X": direction, "Y": scale}, {"Out": weight}, block=block)
    return weight


def _temporary(block: Block, like: Variable) -> Variable:
    return block.create_var(
        name=names.generate(f"{like.name}.weight_norm.tmp"), dtype=like.dtype, persistable=False
    )
