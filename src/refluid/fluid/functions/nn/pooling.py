"""Pooling: pool2d, pool3d and their adaptive forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.fluid.functions.nn.windows import (
    Padding,
    is_channel_last,
    padding_attributes,
    per_dimension,
)
from refluid.ir.variable import Variable

Window = int | Sequence[int]


def pool2d(
    input: Variable,
    pool_size: Window = -1,
    pool_type: str = "max",
    pool_stride: Window = 1,
    pool_padding: Padding = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """Maximum ("max") or mean ("avg") over windows of (N, C, H, W) or (N, H, W, C).

    global_pooling: one window over all. ceil_mode: a last window that sticks out counts.
    exclusive: a mean leaves the padding out. Raises ValueError for an unknown type, layout or
    padding, and where a size is needed and missing.
    """
    return _pool("pool2d", 4, locals())


def pool3d(
    input: Variable,
    pool_size: Window = -1,
    pool_type: str = "max",
    pool_stride: Window = 1,
    pool_padding: Padding = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCDHW",
) -> Variable:
    """As `pool2d` for (N, C, D, H, W) or (N, D, H, W, C)."""
    return _pool("pool3d", 5, locals())


def _pool(op_type: str, rank: int, given: dict[str, Any]) -> Variable:
    _require_type(given["pool_type"], op_type)
    if not given["global_pooling"] and given["pool_size"] == -1:
        raise ValueError(f"{op_type}: give pool_size, or global_pooling=True")
    if not isinstance(given["use_cudnn"], bool):
        raise TypeError(f"{op_type}: use_cudnn must be True or False")
    last = is_channel_last(given["data_format"], rank, op_type)
    spatial = rank - 2
    padding = padding_attributes(given["pool_padding"], spatial, last, op_type)
    if padding["padding_algorithm"] == "VALID" and given["ceil_mode"]:
        raise ValueError(f"{op_type}: pool_padding 'VALID' doesn't go with ceil_mode=True")
    attrs = {
        "pooling_type": given["pool_type"],
        "ksize": per_dimension(given["pool_size"], spatial, "pool_size"),
        "global_pooling": given["global_pooling"],
        "strides": per_dimension(given["pool_stride"], spatial, "pool_stride"),
        "use_cudnn": given["use_cudnn"],
        "ceil_mode": given["ceil_mode"],
        "use_mkldnn": False,
        "exclusive": given["exclusive"],
        "data_format": given["data_format"],
    }
    return op(op_type, {"X": given["input"]}, attrs | padding, name=given["name"])


def adaptive_pool2d(
    input: Variable,
    pool_size: Window,
    pool_type: str = "max",
    require_index: bool = False,
    name: str | None = None,
) -> Any:
    """Pools (N, C, H, W) into `pool_size` equal windows, whatever H and W are.

    require_index: also returns where each maximum was, as `(out, index)`; "max" only.
    """
    return _adaptive(2, input, pool_size, pool_type, require_index, name)


def adaptive_pool3d(
    input: Variable,
    pool_size: Window,
    pool_type: str = "max",
    require_index: bool = False,
    name: str | None = None,
) -> Any:
    """As `adaptive_pool2d` for (N, C, D, H, W)."""
    return _adaptive(3, input, pool_size, pool_type, require_index, name)


def _adaptive(
    spatial: int, input: Variable, size: Window, pool_type: str, index: bool, name: str | None
) -> Any:
    where = f"adaptive_pool{spatial}d"
    _require_type(pool_type, where)
    if pool_type == "avg" and index:
        raise ValueError(f"{where}: only 'max' pooling has an index")
    op_type = f"pool{spatial}d" if pool_type == "avg" else f"max_pool{spatial}d_with_index"
    attrs = {
        "pooling_type": pool_type,
        "ksize": per_dimension(size, spatial, "pool_size"),
        "adaptive": True,
    }
    if pool_type == "avg":
        return op(op_type, {"X": input}, attrs, name=name)
    del attrs["pooling_type"]
    out, mask = op(op_type, {"X": input}, attrs, ("Out", "Mask"), name=name)
    return (out, mask) if index else out


def _require_type(pool_type: str, where: str) -> None:
    if pool_type not in ("max", "avg"):
        raise ValueError(f"{where}: pool_type must be 'max' or 'avg', not {pool_type!r}")
