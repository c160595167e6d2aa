"""Reads the text form of programs (see `refluid.ir.text`)."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from refluid.core.dtypes import VarType, as_dtype
from refluid.core.errors import EnforceNotMet
from refluid.ir.attributes import AttrType
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.text import PLAIN_NAME
from refluid.ir.variable import Variable

_NAME = re.compile(rf'"(?:[^"\\]|\\.)*"|{PLAIN_NAME}')
_SHAPE = re.compile(r"(?P<dtype>\w+)\[(?P<dims>[^\]]*)\]")
_FLAG = re.compile(r"(\w+)=(\S+)")
_DECODER = json.JSONDecoder()


class _Line:
    """One line being read from left to right."""

    def __init__(self, number: int, text: str) -> None:
        self.number, self.text, self.at = number, text, 0

    def fail(self, wanted: str) -> EnforceNotMet:
        rest = self.text[self.at : self.at + 40]
        return EnforceNotMet(f"line {self.number}: expected {wanted}, found {rest!r}")

    def name(self) -> str:
        found = _NAME.match(self.text, self.at)
        if found is None:
            raise self.fail("a name")
        self.at = found.end()
        word: str = found.group()
        return json.loads(word) if word.startswith('"') else word

    def take(self, token: str) -> bool:
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def need(self, token: str) -> None:
        if not self.take(token):
            raise self.fail(repr(token))

    def value(self) -> Any:
        try:
            value, self.at = _DECODER.raw_decode(self.text, self.at)
        except ValueError:
            raise self.fail("a value") from None
        return value

    def slots(self, end: str) -> dict[str, list[str]]:
        """`X=[a, b], Y=[c]` up to `end`."""
        slots: dict[str, list[str]] = {}
        while not self.take(end):
            if slots:
                self.need(", ")
            slot = self.name()
            self.need("=[")
            slots[slot] = []
            while not self.take("]"):
                if slots[slot]:
                    self.need(", ")
                slots[slot].append(self.name())
        return slots


def parse_program(text: str) -> Program:
    """The program of a text form. EnforceNotMet names the line that can't be read."""
    lines = [line for line in enumerate(text.splitlines(), 1) if line[1].strip()]
    program = Program()
    header = dict(_FLAG.findall(lines[0][1])) if lines else {}
    if not lines or not lines[0][1].startswith("program"):
        raise EnforceNotMet("line 1: expected 'program'")
    program.version = int(header["version"]) if "version" in header else None
    if "op_versions" in header:
        program.op_versions = base64.b64decode(header["op_versions"])
    program.blocks = [_header(program, line) for _, line in lines[1:] if line.startswith("block ")]
    block: Block | None = None
    for number, line in lines[1:]:
        if line.startswith("block "):
            block = program.blocks[int(line.split()[1])]
        elif block is None:
            raise EnforceNotMet(f"line {number}: expected 'block'")
        else:
            _member(block, _Line(number, line.strip()))
    return program


def _header(program: Program, line: str) -> Block:
    flags = dict(_FLAG.findall(line))
    block = Block(program, int(line.split()[1]), int(flags["parent"]))
    block.forward_block_idx = int(flags["forward"]) if "forward" in flags else None
    return block


def _member(block: Block, line: _Line) -> None:
    if line.take("var "):
        var = _var(block, line)
        block.vars[var.name] = var
    else:
        block.ops.append(_op(block, line))


def _var(block: Block, line: _Line) -> Variable:
    name = line.name() if line.text[line.at] == '"' else line.name().removesuffix(":")
    line.take(":")
    words = line.text[line.at :].strip()
    flags = dict(_FLAG.findall(words))
    kind = VarType[words.split()[0]]
    shape = _SHAPE.search(words)
    options: dict[str, Any] = {}
    if shape is not None and "raw" not in flags:
        options["dtype"] = as_dtype(shape["dtype"])
        options["shape"] = json.loads(f"[{shape['dims']}]")
        options["lod_level"] = int(flags["lod"]) if "lod" in flags else None
    persistable = {"true": True, "false": False}.get(flags.get("persistable", ""))
    check = words.endswith(" check_feed")
    var = Variable(block, kind, name, persistable=persistable, need_check_feed=check, **options)
    var.is_data = check
    if "raw" in flags:
        var.extra_desc = base64.b64decode(flags["raw"])
    return var


def _op(block: Block, line: _Line) -> Operator:
    start = line.at
    first = line.name()
    outputs: dict[str, list[str]] = {}
    if line.take("=["):
        line.at = start
        outputs = line.slots(" = ")
        first = line.name()
    line.need("(")
    op = Operator(block, first, line.slots(")"), outputs)
    line.need(" {")
    while not line.take("}"):
        if op.attrs:
            line.need(", ")
        kind = AttrType[line.name()]
        line.need(" ")
        name = line.name()
        line.need("=")
        op.attrs[name] = _attribute(block.program, line.value(), kind)
        op.attr_types[name] = kind
    op.is_target = {" target=true": True, " target=false": False}.get(line.text[line.at :])
    return op


def _attribute(program: Program, value: Any, kind: AttrType) -> Any:
    if kind == AttrType.BLOCK:
        return program.blocks[value]
    if kind == AttrType.BLOCKS:
        return [program.blocks[index] for index in value]
    return value
