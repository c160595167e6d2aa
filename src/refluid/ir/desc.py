"""Writes programs as ProgramDesc messages, the format of `__model__` and `.pdmodel` files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refluid.core.dtypes import VarType
from refluid.ir import framework_pb2 as pb
from refluid.ir.attributes import AttrType

if TYPE_CHECKING:
    from refluid.ir.block import Block
    from refluid.ir.operator import Operator
    from refluid.ir.program import Program
    from refluid.ir.variable import Variable

FIELD = {
    AttrType.INT: "i",
    AttrType.FLOAT: "f",
    AttrType.STRING: "s",
    AttrType.INTS: "ints",
    AttrType.FLOATS: "floats",
    AttrType.STRINGS: "strings",
    AttrType.BOOLEAN: "b",
    AttrType.BOOLEANS: "bools",
    AttrType.BLOCK: "block_idx",
    AttrType.LONG: "l",
    AttrType.BLOCKS: "blocks_idx",
    AttrType.LONGS: "longs",
}
TENSOR_FIELD = {VarType.LOD_TENSOR: "lod_tensor", VarType.LOD_TENSOR_ARRAY: "tensor_array"}


def encode_program(program: Program) -> pb.ProgramDesc:
    """The message of a program."""
    message = pb.ProgramDesc()
    for block in program.blocks:
        encode_block(block, message.blocks.add())
    if program.version is not None:
        message.version.version = program.version
    if program.op_versions is not None:
        message.op_compatible_map.ParseFromString(program.op_versions)
    return message


def encode_block(block: Block, message: pb.BlockDesc) -> None:
    """Writes a block into its message."""
    message.idx, message.parent_idx = block.idx, block.parent_idx
    if block.forward_block_idx is not None:
        message.forward_block_idx = block.forward_block_idx
    for var in block.vars.values():
        encode_var(var, message.vars.add())
    for op in block.ops:
        encode_op(op, message.ops.add())


def encode_var(var: Variable, message: pb.VarDesc) -> None:
    """Writes a variable into its message."""
    message.name = var.name
    if var.extra_desc is not None:
        message.type.ParseFromString(var.extra_desc)
    else:
        encode_type(var, message.type)
    if var._persistable is not None:
        message.persistable = var._persistable
    if var.need_check_feed:
        message.need_check_feed = True


def encode_type(var: Variable, message: pb.VarType) -> None:
    message.type = int(var.type)  # type: ignore[assignment]
    if var.type == VarType.SELECTED_ROWS:
        tensor = message.selected_rows
    elif var.type in TENSOR_FIELD:
        holder = getattr(message, TENSOR_FIELD[var.type])
        tensor = holder.tensor
        if var._lod_level is not None:
            holder.lod_level = var._lod_level
    else:
        return
    tensor.data_type = int(var.dtype)  # type: ignore[assignment]
    tensor.dims.extend(var.shape)


def encode_op(op: Operator, message: pb.OpDesc) -> None:
    """Writes an operator into its message."""
    message.type = op.type
    for slots, target in ((op.inputs, message.inputs), (op.outputs, message.outputs)):
        for slot, arguments in slots.items():
            target.add(parameter=slot, arguments=arguments)
    for name, value in op.attrs.items():
        kind = op.attr_types[name]
        attr = message.attrs.add(name=name, type=int(kind))
        if kind == AttrType.BLOCK:
            attr.block_idx = value.idx
        elif kind == AttrType.BLOCKS:
            attr.blocks_idx.extend(block.idx for block in value)
        elif isinstance(value, list):
            getattr(attr, FIELD[kind]).extend(value)
        else:
            setattr(attr, FIELD[kind], value)
    if op.is_target is not None:
        message.is_target = op.is_target


def block_bytes(block: Block) -> bytes:
    """The message of a block alone."""
    message = pb.BlockDesc()
    encode_block(block, message)
    return message.SerializeToString()


def variable_bytes(var: Variable) -> bytes:
    """The message of a variable alone."""
    message = pb.VarDesc()
    encode_var(var, message)
    return message.SerializeToString()


def operator_bytes(op: Operator) -> bytes:
    """The message of an operator alone."""
    message = pb.OpDesc()
    encode_op(op, message)
    return message.SerializeToString()
