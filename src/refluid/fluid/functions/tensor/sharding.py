"""Indices of classes that are spread over several trainers."""

from __future__ import annotations

from refluid.build import op
from refluid.ir.variable import Variable


def shard_index(
    input: Variable, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1
) -> Variable:
    """Indices below `index_num` as places in shard `shard_id` of `nshards` equal ones.

    input: integers, last dimension 1. Those of other shards become `ignore_value`. ValueError
    for a shard that doesn't exist.
    """
    if not 0 <= shard_id < nshards:
        raise ValueError(f"The shard_id({shard_id}) should be in [0, {nshards})")
    attrs = {
        "index_num": index_num,
        "nshards": nshards,
        "shard_id": shard_id,
        "ignore_value": ignore_value,
    }
    return op("shard_index", {"X": [input]}, attrs, stop_gradient=True)
