"""`fluid.data`: a variable that is fed, with the shape and type of the data checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.data_feeder import check_type
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

__all__ = ["data"]


def data(
    name: str, shape: Sequence[int | None], dtype: Any = "float32", lod_level: int = 0
) -> Variable:
    """A variable that each run is fed; None or -1 in `shape` is a size that may vary.

    Executors check what is fed against shape and type. lod_level: levels of sequences in the
    data. Raises TypeError for a name that is no str or a shape that is no list or tuple.
    """
    check_type(name, "name", (bytes, str), "data")
    check_type(shape, "shape", (list, tuple), "data")
    helper = LayerHelper("data", name=name)
    return helper.create_global_variable(
        name=name,
        shape=[-1 if size is None else size for size in shape],
        dtype=as_dtype(dtype),
        type=VarType.LOD_TENSOR,
        stop_gradient=True,
        lod_level=lod_level,
        is_data=True,
        need_check_feed=True,
    )
