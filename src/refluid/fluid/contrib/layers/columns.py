"""Layers for click-through models: shuffled rows, columns of several inputs, ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.build import op
from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper import LayerHelper
from refluid.fluid.param_attr import to_attr
from refluid.ir.variable import Variable

__all__ = [
    "partial_concat",
    "partial_sum",
    "rank_attention",
    "shuffle_batch",
]

_SEEDS = 65536


def shuffle_batch(x: Variable, seed: int | Variable | None = None) -> Variable:
    """The rows of `x` in random order.

    seed: of the first run, or an int64 variable; None for one that NumPy draws.
    """
    helper = LayerHelper("shuffle_batch")
    attrs: dict[str, Any] = {}
    if seed is None:
        seed = int(np.random.randint(-_SEEDS, _SEEDS))
    if isinstance(seed, int):
        attrs["startup_seed"] = seed
        seed = helper.create_variable(
            name=names.generate("shuffle_batch_seed"),
            shape=[0],
            dtype=VarType.INT64,
            persistable=True,
        )
    makes = {"Out": x.dtype, "ShuffleIdx": VarType.INT64, "SeedOut": seed}
    return op("shuffle_batch", {"X": x, "Seed": seed}, attrs, makes, layer=helper)[0]


def _partial(op_type: str, input: Variable | Sequence[Variable], attrs: dict[str, int]) -> Variable:
    inputs = [input] if isinstance(input, Variable) else list(input)
    return op(op_type, {"X": inputs}, attrs)


def partial_concat(
    input: Variable | Sequence[Variable], start_index: int = 0, length: int = -1
) -> Variable:
    """Columns start_index .. start_index + length (all that follow for -1) side by side."""
    return _partial("partial_concat", input, {"start_index": start_index, "length": length})


def partial_sum(
    input: Variable | Sequence[Variable], start_index: int = 0, length: int = -1
) -> Variable:
    """Columns start_index .. start_index + length (all that follow for -1) added up."""
    return _partial("partial_sum", input, {"start_index": start_index, "length": length})


def rank_attention(
    input: Variable,
    rank_offset: Variable,
    rank_param_shape: Sequence[int],
    rank_param_attr: Any,
    max_rank: int = 3,
) -> Variable:
    """For samples (N, D) the sum over competitors of their features times a matrix per rank pair.

    rank_offset: int32 (N, 2 * max_rank + 1), a sample's rank, then rank and row of each
    competitor; ranks count from 1. The parameter has shape (max_rank² * D, columns).
    """
    helper = LayerHelper("rank_attention")
    attr = to_attr(rank_param_attr)
    param = helper.create_parameter(attr, list(rank_param_shape), input.dtype)
    inputs = {"X": input, "RankOffset": rank_offset, "RankParam": param}
    return op("rank_attention", inputs, {"MaxRank": max_rank}, layer=helper)
