"""Reads the text form of programs (see `refluid.ir.text`)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.ir.attributes import AttrType, float32
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|->|[()\[\]{}=,]|[^\s()\[\]{}=,"]+')
_INTEGER = re.compile(r"-?\d+")
_EMPTY = {kind.name.lower(): kind for kind in AttrType if kind.name.endswith("S")}
_PLURAL = {
    AttrType.INT: AttrType.INTS,
    AttrType.LONG: AttrType.LONGS,
    AttrType.FLOAT: AttrType.FLOATS,
    AttrType.STRING: AttrType.STRINGS,
    AttrType.BOOLEAN: AttrType.BOOLEANS,
    AttrType.BLOCK: AttrType.BLOCKS,
}
_BOOL = {"true": True, "false": False}
_FLAGS = {"check_feed": "need_check_feed", "data": "is_data", "stop_gradient": "stop_gradient"}
_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "lod": ("lod_level", int),
    "persistable": ("persistable", _BOOL.__getitem__),
    "trainable": ("trainable", _BOOL.__getitem__),
}


def parse_program(text: str) -> Program:
    """Reads a program that `print_program` wrote; EnforceNotMet naming the line it can't read."""
    return _Parser(text).program()


class _Parser:
    """Reads one line after the other; within a line, one token after the other."""

    def __init__(self, text: str) -> None:
        lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1)]
        self._lines = [(n, line) for n, line in lines if line and not line.startswith("#")]
        self._tokens: list[str] = []
        self._program = Program()
        self._block = self._program.global_block()

    def program(self) -> Program:
        if not self._lines or not self._lines[0][1].startswith("program"):
            raise EnforceNotMet("line 1: expected 'program', the first word of every program")
        blocks = sum(line.startswith("block ") for _, line in self._lines)
        more = [Block(self._program, index) for index in range(1, blocks)]
        self._program.blocks += more
        for number, line in self._lines:
            self._tokens = _TOKEN.findall(line)[::-1]
            try:
                self._line()
                if self._tokens:
                    raise ValueError(f"expected the end of the line, found {self._tokens[-1]!r}")
            except (ValueError, TypeError, KeyError, IndexError) as error:
                raise EnforceNotMet(f"line {number}: {error}\n  {line}") from error
        return self._program

    def _line(self) -> None:
        readers: dict[str, Callable[[], None]] = {
            "program": self._head,
            "block": self._enter,
            "var": self._var,
            "param": self._param,
        }
        if self._tokens[-1] in readers and self._tokens[-2:-1] != ["("]:
            readers[self._next()]()
        else:
            self._op()

    # -- tokens ---------------------------------------------------------------

    def _next(self, wanted: str | None = None) -> str:
        if not self._tokens:
            raise ValueError(f"expected {wanted or 'more'!r}, found the end of the line")
        token = self._tokens.pop()
        if wanted is not None and token != wanted:
            raise ValueError(f"expected {wanted!r}, found {token!r}")
        return token

    def _accept(self, token: str) -> bool:
        if self._tokens and self._tokens[-1] == token:
            self._tokens.pop()
            return True
        return False

    def _name(self) -> str:
        return _unquoted(self._next())

    def _list(self, end: str, item: Callable[[], Any]) -> list[Any]:
        items: list[Any] = []
        while not self._accept(end):
            if items:
                self._next(",")
            items.append(item())
        return items

    # -- lines ----------------------------------------------------------------

    def _head(self) -> None:
        program, facts = self._program, self._facts()
        program.version = int(facts["version"]) if "version" in facts else None
        program.random_seed = int(facts.get("seed", 0))
        program.op_versions = (
            bytes.fromhex(facts["op_versions"]) if "op_versions" in facts else None
        )

    def _enter(self) -> None:
        self._block = self._program.blocks[int(self._next())]
        facts = self._facts()
        self._block.parent_idx = int(facts.get("parent", -1))
        self._block.forward_block_idx = int(facts["forward"]) if "forward" in facts else None

    def _facts(self) -> dict[str, str]:
        facts: dict[str, str] = {}
        while self._tokens:
            name = self._next()
            self._next("=")
            facts[name] = self._next()
        return facts

    def _var(self) -> None:
        options: dict[str, Any] = {"persistable": None}
        desc = self._describe(options)
        var = Variable(self._block, **options)
        var.is_data = var.is_data or bool(var.need_check_feed)
        var.extra_desc = desc

    def _param(self) -> None:
        options: dict[str, Any] = {}
        desc = self._describe(options)
        Parameter(self._block, options.pop("shape"), **options).extra_desc = desc

    def _describe(self, options: dict[str, Any]) -> bytes | None:
        """Reads constructor arguments into `options`; returns a type description, if any."""
        token = self._next()
        options["name"] = _unquoted(token.removesuffix(":"))
        if not token.endswith(":"):
            self._next(":")
        if self._tokens and self._tokens[-1] in VarType.__members__:
            options["type"] = VarType[self._next()]
        while self._tokens:
            word = self._next()
            if word in _FLAGS:
                options[_FLAGS[word]] = True
            elif self._accept("="):
                if word == "desc":
                    return bytes.fromhex(self._next())
                name, convert = _OPTIONS[word]
                options[name] = convert(self._next())
            else:
                options["dtype"] = word
                if self._accept("["):
                    options["shape"] = self._list("]", lambda: int(self._next()))
        return None

    def _op(self) -> None:
        type = self._name()
        self._next("(")
        inputs = dict(self._list(")", self._slot))
        outputs: dict[str, list[str]] = {}
        if self._accept("->"):
            outputs.update([self._slot()])
            while self._accept(","):
                outputs.update([self._slot()])
        op = Operator(self._block, type, inputs, outputs)
        if self._accept("target"):
            self._next("=")
            op.is_target = _BOOL[self._next()]
        if self._accept("{"):
            for name, kind, value in self._list("}", self._attribute):
                op.attrs[name], op.attr_types[name] = value, kind
        Editor(self._block).append(op)

    def _slot(self) -> tuple[str, list[str]]:
        slot = self._name()
        self._next("=")
        return slot, self._list("]", self._name) if self._accept("[") else [self._name()]

    def _attribute(self) -> tuple[str, AttrType, Any]:
        name = self._name()
        self._next("=")
        return name, *self._value()

    def _value(self) -> tuple[AttrType, Any]:
        if not self._accept("["):
            word = self._next()
            if word in _EMPTY and self._accept("["):
                self._next("]")
                return _EMPTY[word], []
            return self._scalar(word)
        items = self._list("]", lambda: self._scalar(self._next()))
        kind = AttrType.LONG if self._accept("L") else items[0][0]
        return _PLURAL[kind], [value for _, value in items]

    def _scalar(self, word: str) -> tuple[AttrType, Any]:
        if word.startswith('"'):
            return AttrType.STRING, json.loads(word)
        if word in _BOOL:
            return AttrType.BOOLEAN, _BOOL[word]
        if word.startswith("@"):
            return AttrType.BLOCK, self._program.blocks[int(word[1:])]
        if word.endswith("L") and _INTEGER.fullmatch(word[:-1]):
            return AttrType.LONG, int(word[:-1])
        if _INTEGER.fullmatch(word):
            return AttrType.INT, int(word)
        return AttrType.FLOAT, float32(float(word))


def _unquoted(word: str) -> str:
    return str(json.loads(word)) if word.startswith('"') else word
