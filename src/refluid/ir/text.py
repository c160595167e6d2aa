"""Programs as text that prints, diffs and parses back.

    program version=1008005
    block 0 parent=-1 forward=-1
      var x: float32[-1, 784] lod=0 check_feed
      param w: float32[784, 10]
      var y: float32[-1, 10] lod=0
      mul(X=x, Y=w) -> Out=y {x_num_col_dims=1, op_role=0, op_namescope="/"}

A slot holds one name or a list of names. An attribute shows its type: `1` is an INT, `1L` a
LONG, `1.0` a FLOAT, `"a"` a STRING, `true` a BOOLEAN, `@2` the BLOCK of that index, `[1, 2]L`
are LONGS, and `floats[]` is an empty list. `refluid.ir.parse.parse_program` reads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from refluid.core.dtypes import VarType, dtype_name
from refluid.ir import schema
from refluid.ir.attributes import COMMON, AttrType

if TYPE_CHECKING:
    from refluid.ir.block import Block
    from refluid.ir.operator import Operator
    from refluid.ir.program import Program
    from refluid.ir.variable import Variable

BARE_NAME = re.compile(r"[\w@./][\w@./+:-]*(?<!:)")
LONG_TYPES = {AttrType.LONG, AttrType.LONGS}
PLURALS = (AttrType.INTS, AttrType.FLOATS, AttrType.STRINGS, AttrType.BOOLEANS, AttrType.LONGS)
_LISTS = {*PLURALS, AttrType.BLOCKS}
_TENSORS = {VarType.LOD_TENSOR, VarType.SELECTED_ROWS, VarType.LOD_TENSOR_ARRAY}


def print_program(program: Program, *, brief: bool = False, details: bool = False) -> str:
    """The whole program; `brief` leaves out what `print_op` says, `details` as of `print_var`."""
    facts = {
        "version": program.version,
        "seed": program.random_seed or None,
        "op_versions": program.op_versions.hex() if program.op_versions is not None else None,
    }
    lines = [" ".join(["program", *_options(facts)])]
    lines += [print_block(block, brief=brief, details=details) for block in program.blocks]
    return "\n".join(lines) + "\n"


def print_block(block: Block, *, brief: bool = False, details: bool = False) -> str:
    """A block: its variables, then its operators, one a line."""
    facts = {"parent": block.parent_idx, "forward": block.forward_block_idx}
    lines = [" ".join(["block", str(block.idx), *_options(facts)])]
    for var in block.vars.values():
        lines += [f"  {line}" for line in print_var(var, details=details).split("\n")]
    lines += [f"  {print_op(op, brief=brief)}" for op in block.ops]
    return "\n".join(lines)


def print_var(var: Variable, *, details: bool = False) -> str:
    """A variable: kind (where not a dense tensor), element type, shape, and what is set of it.

    details: a second line, which is a comment, has what else users may set of it.
    """
    parts = [f"{var.kind} {_name(var.name)}:"]
    if var.type != VarType.LOD_TENSOR:
        parts.append(var.type.name)
    if var.type in _TENSORS:
        sizes = ", ".join(map(str, var.shape))
        parts.append(dtype_name(var.dtype) + (f"[{sizes}]" if var.has_description() else ""))
    parts += _options({"lod": var._lod_level})
    parts += _options(var.printed_options())
    flags = {
        "check_feed": var.need_check_feed,
        "data": var.is_data and not var.need_check_feed,
        "stop_gradient": var.stop_gradient,
    }
    parts += [flag for flag, is_set in flags.items() if is_set]
    if var.extra_desc is not None:
        parts.append(f"desc={var.extra_desc.hex()}")
    text = " ".join(parts)
    told = [f"{name}: {value}" for name, value in var.details().items() if value is not None]
    return "\n  # ".join([text, ", ".join(told).replace("\n", " ")] if details and told else [text])


def print_op(op: Operator, *, brief: bool = False) -> str:
    """An operator: `type(inputs) -> outputs {attributes}`.

    `brief` leaves out attributes that have their default, and the bookkeeping of every
    operator (role, name scope, call stack, device): what remains says what is computed.
    """
    found = schema.find(op.type) if brief else None
    defaults = {n: a.default for n, a in found.attributes.items()} if found else {}
    shown = [
        f"{_name(name)}={_value(value, op.attr_types[name])}"
        for name, value in op.attrs.items()
        if not (brief and (name in COMMON or (name in defaults and defaults[name] == value)))
    ]
    text = f"{_name(op.type)}({_slots(op.inputs)})"
    text += f" -> {_slots(op.outputs)}" if op.outputs else ""
    text += "" if op.is_target is None else f" target={_value(op.is_target, AttrType.BOOLEAN)}"
    return text + (f" {{{', '.join(shown)}}}" if shown else "")


def _options(facts: Mapping[str, Any]) -> list[str]:
    words = {True: "true", False: "false"}
    return [
        f"{name}={words[value] if isinstance(value, bool) else value}"
        for name, value in facts.items()
        if value is not None
    ]


def _name(name: str) -> str:
    return name if BARE_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _slots(slots: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{_name(slot)}={_arguments(names)}" for slot, names in slots.items())


def _arguments(names: Sequence[str]) -> str:
    shown = [_name(name) for name in names]
    return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"


def _value(value: Any, kind: AttrType) -> str:
    if kind in _LISTS:
        if not value:
            return f"{kind.name.lower()}[]"
        text = f"[{', '.join(_scalar(one) for one in value)}]"
    else:
        text = _scalar(value)
    return text + ("L" if kind in LONG_TYPES else "")


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return str(np.float32(value))
    return str(value) if isinstance(value, int) else f"@{value.idx}"
