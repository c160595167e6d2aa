"""Variables that are fed, by the user or by readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import apply
from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.functions.io.readers import (
    create_py_reader_by_data,
    double_buffer,
    py_reader,
    read_file,
)
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

__all__ = [
    "create_py_reader_by_data",
    "data",
    "double_buffer",
    "load",
    "py_reader",
    "read_file",
]


def data(
    name: str,
    shape: Sequence[int | None],
    append_batch_size: bool = True,
    dtype: Any = "float32",
    lod_level: int = 0,
    type: VarType = VarType.LOD_TENSOR,
    stop_gradient: bool = True,
) -> Variable:
    """A variable that each run is fed.

    A batch dimension of unknown size is put in front, unless `append_batch_size` is False or
    `shape` holds an unknown size (-1 or None) itself. lod_level: levels of sequences in the data.
    Unlike `fluid.data`, the shape of what is fed is not checked.
    """
    helper = LayerHelper("data", name=name)
    sizes = [-1 if size is None else int(size) for size in shape]
    if append_batch_size and all(size >= 0 for size in sizes):
        sizes = [-1, *sizes]
    return helper.create_global_variable(
        name=name,
        shape=sizes,
        dtype=as_dtype(dtype),
        type=type,
        stop_gradient=stop_gradient,
        lod_level=lod_level,
        is_data=True,
    )


def load(out: Variable, file_path: str, load_as_fp16: bool | None = None) -> None:
    """Has the program read `out`, a variable of its, from a file that `save` wrote.

    load_as_fp16: as float16, whatever the file holds.
    """
    attrs: dict[str, Any] = {"file_path": file_path}
    if load_as_fp16 is not None:
        attrs["load_as_fp16"] = load_as_fp16
    apply("load", {}, {"Out": out}, attrs)
