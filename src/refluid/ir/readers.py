"""Variables that are readers: what they say of the tensors that they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from refluid.core.dtypes import VarType
from refluid.ir.variable import Variable


class ReadTensor(NamedTuple):
    """Shape, element type and LoD level of one tensor that a reader gives."""

    shape: tuple[int, ...]
    dtype: VarType
    lod_level: int


def set_read_tensors(reader: Variable, tensors: Sequence[ReadTensor]) -> None:
    """Has the reader variable say what it gives."""
    from refluid.ir import framework_pb2 as pb  # with 30 modules of protobuf

    message = pb.VarType(type=int(VarType.READER))  # type: ignore[arg-type]
    for one in tensors:
        entry = message.reader.lod_tensor.add(lod_level=one.lod_level)
        entry.tensor.data_type = int(one.dtype)  # type: ignore[assignment]
        entry.tensor.dims.extend(one.shape)
    reader.extra_desc = message.SerializeToString()


def read_tensors(reader: Variable) -> list[ReadTensor]:
    """What the reader variable gives; empty where it doesn't say."""
    if reader.type != VarType.READER or reader.extra_desc is None:
        return []
    from refluid.ir import framework_pb2 as pb

    message = pb.VarType.FromString(reader.extra_desc)
    return [
        ReadTensor(tuple(one.tensor.dims), VarType(one.tensor.data_type), one.lod_level)
        for one in message.reader.lod_tensor
    ]
