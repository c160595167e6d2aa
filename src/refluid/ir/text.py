"""Programs as text: one line per variable and operator, to print, to diff and to parse.

    program version=1008005
    block 0 parent=-1 forward=0
      var img: LOD_TENSOR float32[-1, 784] lod=0 persistable=false check_feed
      var fc_0.w_0: LOD_TENSOR float32[784, 10] persistable=true
      Out=[fc_0.tmp_0] = mul(X=[img], Y=[fc_0.w_0]) {INT x_num_col_dims=1, INT y_num_col_dims=1}

`parse_program` (in `refluid.ir.parse`) reads it back to an equal program. With `brief` the
bookkeeping attributes (`op_role` and the like) are left out.
"""

from __future__ import annotations

import base64
import json
import re

from refluid.core.dtypes import VarType, dtype_name
from refluid.ir.attributes import COMMON, AttrType
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Variable

PLAIN_NAME = r"[\w.@/:%+*-]+"
_SHAPED = (VarType.LOD_TENSOR, VarType.SELECTED_ROWS, VarType.LOD_TENSOR_ARRAY)


def print_program(program: Program, *, brief: bool = False) -> str:
    """The text form of a program."""
    header = "program"
    if program.version is not None:
        header += f" version={program.version}"
    if program.op_versions is not None:
        header += f" op_versions={base64.b64encode(program.op_versions).decode()}"
    blocks = [print_block(block, brief=brief) for block in program.blocks]
    return "\n".join([header, *blocks]) + "\n"


def print_block(block: Block, *, brief: bool = False) -> str:
    """The text form of a block."""
    header = f"block {block.idx} parent={block.parent_idx}"
    if block.forward_block_idx is not None:
        header += f" forward={block.forward_block_idx}"
    lines = [header]
    lines += [f"  {print_var(var)}" for var in block.vars.values()]
    lines += [f"  {print_op(op, brief=brief)}" for op in block.ops]
    return "\n".join(lines)


def print_name(name: str) -> str:
    """A name, quoted where it holds unusual characters."""
    return name if re.fullmatch(PLAIN_NAME, name) else json.dumps(name)


def print_var(var: Variable) -> str:
    """`var NAME: KIND type[sizes] lod=N persistable=true`."""
    text = f"var {print_name(var.name)}: {var.type.name}"
    if var.extra_desc is not None:
        text += f" raw={base64.b64encode(var.extra_desc).decode()}"
    elif var.type in _SHAPED:
        text += f" {dtype_name(var.dtype)}{list(var.shape)}"
        if var._lod_level is not None:
            text += f" lod={var._lod_level}"
    if var._persistable is not None:
        text += f" persistable={str(var._persistable).lower()}"
    return text + (" check_feed" if var.need_check_feed else "")


def print_op(op: Operator, *, brief: bool = False) -> str:
    """`Out=[y] = type(X=[x]) {KIND attribute=value}`."""
    attrs = ", ".join(
        f"{op.attr_types[name].name} {print_name(name)}={_print_value(value, op.attr_types[name])}"
        for name, value in op.attrs.items()
        if not (brief and name in COMMON)
    )
    target = "" if op.is_target is None else f" target={str(op.is_target).lower()}"
    text = f"{print_name(op.type)}({_print_slots(op.inputs)}) {{{attrs}}}{target}"
    outputs = _print_slots(op.outputs)
    return f"{outputs} = {text}" if outputs else text


def _print_slots(slots: dict[str, list[str]]) -> str:
    return ", ".join(
        f"{print_name(slot)}=[{', '.join(print_name(name) for name in names)}]"
        for slot, names in slots.items()
    )


def _print_value(value: object, kind: AttrType) -> str:
    if kind == AttrType.BLOCK:
        assert isinstance(value, Block)
        return str(value.idx)
    if kind == AttrType.BLOCKS:
        assert isinstance(value, list)
        return json.dumps([block.idx for block in value])
    return json.dumps(value)
