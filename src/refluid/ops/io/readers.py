"""Operators that make readers and read from them: slots and attributes, without bodies.

A reader is a live object in the scope; `runtime.readers` writes these operators into plans.
"""

from __future__ import annotations

from typing import Any

from refluid.core.dtypes import VarType
from refluid.ir.attributes import AttrType
from refluid.ir.operator import Operator
from refluid.ir.readers import ReadTensor, read_tensors, set_read_tensors
from refluid.ir.schema import Attribute
from refluid.ops.inline import inline
from refluid.ops.registry import OperatorDef

_FLAGS: dict[str, Any] = {"effects": "host", "reads": True}


def _describe_reader(definition: OperatorDef, op: Operator) -> None:
    """The new reader gives what the attributes say."""
    out = op.block.find_var_recursive(op.output("Out")[0])
    if out is None:
        return
    sizes, tensors = list(op.attr("shape_concat")), []
    rows = zip(op.attr("ranks"), op.attr("dtypes"), op.attr("lod_levels"), strict=True)
    for rank, dtype, level in rows:
        tensors.append(ReadTensor(tuple(sizes[:rank]), VarType(dtype), level))
        del sizes[:rank]
    set_read_tensors(out, tensors)


def _describe_buffer(definition: OperatorDef, op: Operator) -> None:
    """The buffered reader gives what the one under it gives."""
    source = op.block.find_var_recursive(op.input("UnderlyingReader")[0])
    out = op.block.find_var_recursive(op.output("Out")[0])
    if source is not None and out is not None:
        set_read_tensors(out, read_tensors(source))


def _describe_read(definition: OperatorDef, op: Operator) -> None:
    """The outputs are what the reader gives."""
    reader = op.block.find_var_recursive(op.input("Reader")[0])
    if reader is None or not op.attr("infer_out"):
        return
    for name, tensor in zip(op.output("Out"), read_tensors(reader), strict=False):
        out = op.block.find_var_recursive(name)
        if out is not None:
            out.describe(shape=tensor.shape, dtype=tensor.dtype)
            out.lod_level = tensor.lod_level


inline(
    "create_py_reader",
    "blocking_queue",
    "Out*",
    Attribute("shape_concat", AttrType.INTS, required=True),
    Attribute("ranks", AttrType.INTS, required=True),
    Attribute("lod_levels", AttrType.INTS, required=True),
    Attribute("dtypes", AttrType.INTS, required=True),
    Attribute("need_check_feed", AttrType.INTS, required=True),
    Attribute("use_data_config", AttrType.BOOLEAN, True),
    Attribute("device_index", AttrType.INT, 0),
    Attribute("device_count", AttrType.INT, 1),
    infer=_describe_reader,
    **_FLAGS,
)
inline(
    "create_double_buffer_reader",
    "UnderlyingReader",
    "Out",
    Attribute("place", AttrType.STRING, "AUTO"),
    infer=_describe_buffer,
    **_FLAGS,
)
inline(
    "read",
    "Reader",
    "Out*",
    Attribute("throw_eof_exp", AttrType.BOOLEAN, True),
    Attribute("infer_out", AttrType.BOOLEAN, True),
    Attribute("drop_last", AttrType.BOOLEAN, True),
    makes_lod="Out",
    infer=_describe_read,
    **_FLAGS,
)
