"""search_pyramid_hash: embeddings of the n-grams of sequences, found by hashing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.fluid.layer_helper import LayerHelper
from refluid.fluid.param_attr import to_attr
from refluid.ir.variable import Variable

__all__ = ["search_pyramid_hash"]


def search_pyramid_hash(
    input: Variable,
    num_emb: int,
    space_len: int,
    pyramid_layer: int,
    rand_len: int,
    drop_out_percent: float,
    is_training: bool | int,
    use_filter: bool,
    white_list_len: int,
    black_list_len: int,
    seed: int,
    lr: float,
    param_attr: Any = None,
    param_attr_wl: Any = None,
    param_attr_bl: Any = None,
    name: str | None = None,
    distribute_update_vars: Sequence[str] | None = None,
    dtype: Any = "float32",
) -> Variable:
    """A vector of `num_emb` for each run of 2 .. pyramid_layer rows of the sequences of `input`.

    input: int32 (N, 1). Vectors are pieces, `rand_len` long, of one parameter (space_len +
    rand_len, 1) at places that hashes tell; it is trained at rate `lr` by the operator itself.
    drop_out_percent: share of runs left out in training.
    """
    helper = LayerHelper("search_pyramid_hash", name=name)
    tables = {
        "W": (space_len + rand_len, param_attr),
        "WhiteList": (white_list_len, param_attr_wl),
        "BlackList": (black_list_len, param_attr_bl),
    }
    inputs = {"X": input} | _tables(helper, tables, dtype)
    attrs = {
        "num_emb": num_emb,
        "space_len": space_len,
        "pyramid_layer": pyramid_layer,
        "rand_len": rand_len,
        "drop_out_percent": drop_out_percent,
        "is_training": int(is_training),
        "use_filter": use_filter,
        "white_list_len": white_list_len,
        "black_list_len": black_list_len,
        "seed": seed,
        "lr": lr,
        "distribute_update_vars": ",".join(distribute_update_vars or ()),
    }
    return op("pyramid_hash", inputs, attrs, dtype=dtype, layer=helper)


def _tables(
    helper: LayerHelper, tables: dict[str, tuple[int, Any]], dtype: Any
) -> dict[str, Variable]:
    """Parameters (rows, 1) that no optimizer trains, for the slots that have rows."""
    made = {}
    for slot, (rows, attr) in tables.items():
        if rows > 0:
            made[slot] = helper.create_parameter(to_attr(attr), [rows, 1], dtype)
            made[slot].stop_gradient = True
    return made
