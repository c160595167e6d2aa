"""Programs as ProgramDesc messages, the format of `__model__` and `.pdmodel` files."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from refluid.core.dtypes import VarType, is_element
from refluid.core.errors import EnforceNotMet
from refluid.ir import framework_pb2 as pb
from refluid.ir.attributes import AttrType
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Variable

_FIELD = {
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
_TENSOR_FIELD = {VarType.LOD_TENSOR: "lod_tensor", VarType.LOD_TENSOR_ARRAY: "tensor_array"}


def encode_program(program: Program) -> pb.ProgramDesc:
    """The message of a program."""
    message = pb.ProgramDesc()
    for block in program.blocks:
        _encode_block(block, message.blocks.add())
    if program.version is not None:
        message.version.version = program.version
    if program.op_versions is not None:
        message.op_compatible_map.ParseFromString(program.op_versions)
    return message


def _encode_block(block: Block, message: pb.BlockDesc) -> None:
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
        _encode_type(var, message.type)
    if var._persistable is not None:
        message.persistable = var._persistable
    if var.need_check_feed:
        message.need_check_feed = True


def _encode_type(var: Variable, message: pb.VarType) -> None:
    message.type = int(var.type)  # type: ignore[assignment]
    if var.type == VarType.SELECTED_ROWS:
        tensor = message.selected_rows
    elif var.type in _TENSOR_FIELD:
        holder = getattr(message, _TENSOR_FIELD[var.type])
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
            getattr(attr, _FIELD[kind]).extend(value)
        else:
            setattr(attr, _FIELD[kind], value)
    if op.is_target is not None:
        message.is_target = op.is_target


def decode_program(data: bytes) -> Program:
    """Reads a ProgramDesc message. EnforceNotMet where the bytes are none."""
    message = pb.ProgramDesc()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise EnforceNotMet(
            f"{len(data)} bytes are not a Fluid program (ProgramDesc): {error}. "
            "Was the file cut short, or is it a parameter file?"
        ) from error
    if not message.blocks:
        raise EnforceNotMet("the program has no block; an empty file is not a Fluid program")
    program = Program()
    program.version = message.version.version if message.HasField("version") else None
    if message.HasField("op_compatible_map"):
        program.op_versions = message.op_compatible_map.SerializeToString()
    program.blocks = [Block(program, block.idx, block.parent_idx) for block in message.blocks]
    for block, twin in zip(message.blocks, program.blocks, strict=True):
        _decode_block(block, twin)
    return program


def _decode_block(message: pb.BlockDesc, block: Block) -> None:
    has_forward = message.HasField("forward_block_idx")
    block.forward_block_idx = message.forward_block_idx if has_forward else None
    for var in message.vars:
        block.vars[var.name] = decode_var(var, block)
    block.ops = [_decode_op(op, block) for op in message.ops]


def decode_var(message: pb.VarDesc, block: Block) -> Variable:
    """A variable from its message."""
    kind = VarType(message.type.type)
    options: dict[str, Any] = {}
    if kind == VarType.SELECTED_ROWS:
        tensor = message.type.selected_rows
        options = {"shape": list(tensor.dims), "dtype": _element(tensor.data_type)}
    elif kind in _TENSOR_FIELD:
        holder = getattr(message.type, _TENSOR_FIELD[kind])
        options = {"shape": list(holder.tensor.dims), "dtype": _element(holder.tensor.data_type)}
        options["lod_level"] = holder.lod_level if holder.HasField("lod_level") else None
    var = Variable(
        block,
        type=kind,
        name=message.name,
        persistable=message.persistable if message.HasField("persistable") else None,
        need_check_feed=message.need_check_feed,
        **options,
    )
    var.is_data = message.need_check_feed
    again = pb.VarType()
    _encode_type(var, again)
    if again != message.type:
        var.extra_desc = message.type.SerializeToString()
    return var


def _element(number: int) -> VarType | None:
    """The element type, or None for what Fluid writes into variables of no type of their own."""
    kind = VarType(number)
    return kind if is_element(kind) else None


def _decode_op(message: pb.OpDesc, block: Block) -> Operator:
    op = Operator(
        block,
        message.type,
        {slot.parameter: list(slot.arguments) for slot in message.inputs},
        {slot.parameter: list(slot.arguments) for slot in message.outputs},
    )
    blocks = block.program.blocks
    for attr in message.attrs:
        kind = AttrType(attr.type)
        value = getattr(attr, _FIELD[kind])
        if kind == AttrType.BLOCK:
            value = blocks[value]
        elif kind == AttrType.BLOCKS:
            value = [blocks[index] for index in value]
        elif not isinstance(value, str | bool | int | float):
            value = list(value)
        op.attrs[attr.name] = value
        op.attr_types[attr.name] = kind
    op.is_target = message.is_target if message.HasField("is_target") else None
    return op
