"""What may be fed to a variable, and whether a block has operators that feed and fetch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from refluid.core.dtypes import VarType, as_dtype, dtype_name
from refluid.core.values import LoDTensor, LoDTensorArray
from refluid.ir.block import Block
from refluid.ir.variable import Variable


def as_numpy(tensor: Any) -> Any:
    """The values of a tensor, or of each in a list. RuntimeError where they have LoD."""
    if isinstance(tensor, LoDTensorArray | list):
        return [as_numpy(one) for one in tensor]
    if isinstance(tensor, LoDTensor) and tensor.lod():
        raise RuntimeError(
            "Some of your fetched tensors hold LoD information. They can not be completely cast "
            "to Python ndarray. Please set the parameter 'return_numpy' as 'False' to return "
            "LoDTensor itself directly."
        )
    return np.array(tensor)


def dimension_is_compatible_with(first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether two shapes agree, where an unknown size (None, negative) agrees with any."""
    if len(first) != len(second):
        return False
    return all(
        a is None or b is None or a < 0 or b < 0 or a == b
        for a, b in zip(first, second, strict=True)
    )


def dtype_is_compatible_with(first: Any, second: Any) -> bool:
    """Whether two element types are the same."""
    return as_dtype(first) == as_dtype(second)


def check_feed_shape_type(var: Variable, feed: Any, num_places: int = 1) -> bool:
    """ValueError where what is fed doesn't fit a variable that asks to be checked.

    num_places: the places that the batch is split among.
    """
    if not var.need_check_feed:
        return True
    shape = list(feed.shape()) if isinstance(feed, LoDTensor) else list(feed.shape)
    if shape and not (isinstance(feed, LoDTensor) and feed.lod()):
        shape[0] = shape[0] // num_places if shape[0] > 0 else shape[0]
    if not dimension_is_compatible_with(shape, var.shape):
        raise ValueError(
            f"The fed Variable {var.name!r} should have dimensions = {len(var.shape)}, "
            f"shape = {var.shape}, but received fed shape {shape} on each device"
        )
    dtype = feed._dtype() if isinstance(feed, LoDTensor) else as_dtype(feed.dtype)
    if not dtype_is_compatible_with(dtype, var.dtype):
        raise ValueError(
            f"The data type of fed Variable {var.name!r} must be {dtype_name(var.dtype)!r}, but "
            f"received {dtype_name(VarType(dtype))!r}"
        )
    return True


def has_feed_operators(
    block: Block, feed_targets: Mapping[str, Any], feed_holder_name: str
) -> bool:
    """Whether feed operators read from the holder. Exception where they feed something else."""
    found = [
        op.output("Out")[0]
        for op in block.ops
        if op.type == "feed" and op.input("X") == [feed_holder_name]
    ]
    _compare("feed", found, feed_targets)
    return bool(found)


def has_fetch_operators(block: Block, fetch_targets: Sequence[Any], fetch_holder_name: str) -> bool:
    """Whether fetch operators write to the holder. Exception where they fetch something else."""
    found = [
        op.input("X")[0]
        for op in block.ops
        if op.type == "fetch" and op.output("Out") == [fetch_holder_name]
    ]
    _compare("fetch", found, [getattr(target, "name", target) for target in fetch_targets])
    return bool(found)


def _compare(what: str, found: list[str], wanted: Collection[str]) -> None:
    if not found:
        return
    if len(found) != len(wanted):
        raise Exception(f"{what} operators in program don't match the {what} targets")
    for name in found:
        if name not in wanted:
            raise Exception(f"there is a {what} operator in the program for {name}: not wanted")
