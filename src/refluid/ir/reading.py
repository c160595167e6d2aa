"""Reads programs from ProgramDesc messages; what is damaged in one is refused, with its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from refluid.core.dtypes import VarType, is_element
from refluid.core.errors import EnforceNotMet
from refluid.ir import framework_pb2 as pb
from refluid.ir.attributes import CALLSTACK, COMMON, AttrType
from refluid.ir.block import Block
from refluid.ir.desc import FIELD, TENSOR_FIELD, encode_type
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable

if TYPE_CHECKING:
    from refluid.ir.program import Program


def decode_into(program: Program, data: bytes) -> None:
    """Reads a ProgramDesc message into an empty program.

    Raises EnforceNotMet where the bytes are none or it is damaged.
    """
    message = _message(data)
    program.version = message.version.version if message.HasField("version") else None
    if message.HasField("op_compatible_map"):
        program.op_versions = message.op_compatible_map.SerializeToString()
    program.blocks = [Block(program, block.idx, block.parent_idx) for block in message.blocks]
    for number, (block, twin) in enumerate(zip(message.blocks, program.blocks, strict=True)):
        with _part(f"block {number}"):
            _decode_place(block, twin, number)
        _decode_block(block, twin)


def _message(data: bytes) -> pb.ProgramDesc:
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
    if not message.IsInitialized():  # a number that names no type counts as missing
        missing = message.FindInitializationErrors()  # type: ignore[attr-defined]
        raise EnforceNotMet(
            f"the program is damaged: {', '.join(missing[:3])} is missing or of an unknown kind"
        )
    return message


@contextmanager
def _part(place: str) -> Iterator[None]:
    """Says where in the program something was that can't be read."""
    try:
        yield
    except (ValueError, LookupError, TypeError) as error:
        raise EnforceNotMet(
            f"the program is damaged: {place}: {error}. Restore it from its source"
        ) from error


def _decode_place(message: pb.BlockDesc, block: Block, number: int) -> None:
    """Checks which block this is, and of which it is a part: always of an earlier one."""
    if message.idx != number:
        raise ValueError(f"its number is {message.idx}")
    if not (message.parent_idx == -1 if number == 0 else 0 <= message.parent_idx < number):
        raise ValueError(f"it is inside of block {message.parent_idx}")
    if message.HasField("forward_block_idx"):
        if not -1 <= message.forward_block_idx < max(number, 1):
            raise ValueError(f"its forward block is {message.forward_block_idx}")
        block.forward_block_idx = message.forward_block_idx


def _decode_block(message: pb.BlockDesc, block: Block) -> None:
    for number, one in enumerate(message.vars):
        with _part(f"block {block.idx}, variable {number}"):
            _decode_var(one, block)
    for number, op in enumerate(message.ops):
        with _part(f"block {block.idx}, operator {number} ({op.type!r})"):
            Editor(block).append(_decode_op(op, block))


def _decode_var(message: pb.VarDesc, block: Block) -> None:
    kind = VarType(message.type.type)
    options: dict[str, Any] = {}
    if kind == VarType.SELECTED_ROWS:
        tensor = message.type.selected_rows
        options = {"shape": list(tensor.dims), "dtype": _element(tensor.data_type)}
    elif kind in TENSOR_FIELD:
        holder = getattr(message.type, TENSOR_FIELD[kind])
        options = {"shape": list(holder.tensor.dims), "dtype": _element(holder.tensor.data_type)}
        options["lod_level"] = holder.lod_level if holder.HasField("lod_level") else None
    var = Variable(
        block,
        type=kind,
        name=_text(message.name),
        persistable=message.persistable if message.HasField("persistable") else None,
        need_check_feed=message.need_check_feed,
        **options,
    )
    var.is_data = message.need_check_feed
    again = pb.VarType()
    encode_type(var, again)
    if again != message.type:
        var.extra_desc = message.type.SerializeToString()


def _element(number: int) -> VarType | None:
    """The element type, or None for what Fluid writes into variables of no type of their own."""
    kind = VarType(number)
    return kind if is_element(kind) else None


def _decode_op(message: pb.OpDesc, block: Block) -> Operator:
    op = Operator(
        block, _text(message.type), _decode_slots(message.inputs), _decode_slots(message.outputs)
    )
    for attr in message.attrs:
        name = _text(attr.name)
        op.attr_types[name] = kind = AttrType(attr.type)
        if COMMON.get(name, kind) != kind:
            raise ValueError(f"attribute {name!r} is a {kind.name}, not a {COMMON[name].name}")
        op.attrs[name] = _decode_value(name, kind, getattr(attr, FIELD[kind]), block)
    op.is_target = message.is_target if message.HasField("is_target") else None
    return op


def _decode_slots(slots: Iterable[pb.OpDesc.Var]) -> dict[str, list[str]]:
    return {_text(slot.parameter): [_text(name) for name in slot.arguments] for slot in slots}


def _decode_value(name: str, kind: AttrType, value: Any, block: Block) -> Any:
    if kind == AttrType.BLOCK:
        return _sub_block(name, value, block)
    if kind == AttrType.BLOCKS:
        return [_sub_block(name, index, block) for index in value]
    if kind == AttrType.STRING:
        return _text(value)
    if kind == AttrType.STRINGS:  # source lines are in whatever encoding the script has
        return [_text(one, "replace" if name == CALLSTACK else "strict") for one in value]
    return value if isinstance(value, bool | int | float) else list(value)


def _sub_block(name: str, index: int, block: Block) -> Block:
    """The block of that index: one that comes after the operator's own, so that all end."""
    blocks = block.program.blocks
    if not block.idx < index < len(blocks):
        raise ValueError(f"attribute {name!r} is block {index} of {len(blocks)}")
    return blocks[index]


def _text(value: str | bytes, otherwise: str = "strict") -> str:
    # protobuf gives what is no UTF-8 as bytes
    return value if isinstance(value, str) else value.decode("utf-8", otherwise)
