"""Puts readers into programs: their variables, and the operators that make and read them."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.build import apply
from refluid.core.dtypes import VarType
from refluid.core.names import UniqueNameGenerator
from refluid.feed.reader import QueueReader
from refluid.ir.block import Block
from refluid.ir.defaults import default_main_program
from refluid.ir.readers import ReadTensor
from refluid.ir.variable import Variable
from refluid.runtime.readers import publish

# Loaders count for themselves, so that those of two programs never share a queue.
_names = UniqueNameGenerator()


def reader_var(block: Block, name: str) -> Variable:
    """A variable that holds a reader."""
    return block.create_var(name=name, type=VarType.READER, persistable=True, stop_gradient=True)


def creation_attrs(tensors: Sequence[ReadTensor], checks: Sequence[bool]) -> dict[str, list[int]]:
    """The attributes of `create_py_reader`."""
    return {
        "shape_concat": [size for one in tensors for size in one.shape],
        "ranks": [len(one.shape) for one in tensors],
        "lod_levels": [one.lod_level for one in tensors],
        "dtypes": [int(one.dtype) for one in tensors],
        "need_check_feed": [int(check) for check in checks],
    }


def given_by(feed_list: Sequence[Variable]) -> list[ReadTensor]:
    """What a reader must give to feed the variables."""
    return [ReadTensor(tuple(var.shape), VarType(var.dtype), var.lod_level) for var in feed_list]


def join_program(
    reader: QueueReader, feed_list: Sequence[Variable], use_double_buffer: bool
) -> None:
    """Has the main program read `feed_list` from `reader`, before anything uses them."""
    queue, name = _names("lod_tensor_blocking_queue"), _names("create_py_reader")
    reader.name = reader.statistics.name = name
    publish(queue, reader)
    block = default_main_program().current_block()
    index = _first_use(block, {var.name for var in feed_list})
    source = reader_var(block, name)
    attrs = creation_attrs(given_by(feed_list), [bool(var.need_check_feed) for var in feed_list])
    inputs = {"blocking_queue": queue}
    apply("create_py_reader", inputs, {"Out": source}, attrs, block=block, index=index)
    if use_double_buffer:
        index += 1
        buffered = reader_var(block, _names("double_buffer"))
        plain, outputs = {"UnderlyingReader": source}, {"Out": buffered}
        apply("create_double_buffer_reader", plain, outputs, block=block, index=index)
        source = buffered
    apply("read", {"Reader": source}, {"Out": list(feed_list)}, block=block, index=index + 1)


def _first_use(block: Block, names: set[str]) -> int:
    """Position of the first operator that takes one of the variables, else the end."""
    for index, op in enumerate(block.ops):
        if names & set(op.input_arg_names):
            return index
    return len(block.ops)
