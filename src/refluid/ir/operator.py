"""Operator: one node of a program, with named slots of variables and typed attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refluid.core.texts import shorten_causes, shortened
from refluid.ir import schema
from refluid.ir.attributes import (
    CALLSTACK,
    COMMON,
    ROLE,
    ROLE_VAR,
    AttrType,
    OpRole,
    convert,
    guess_type,
)
from refluid.ir.callstack import said
from refluid.ir.described import Described

if TYPE_CHECKING:
    from refluid.ir.block import Block

Slots = Mapping[str, Any]


def argument_names(arguments: Any) -> list[str]:
    """Variable names of a slot given as variable, name, or a sequence of them."""
    if arguments is None:
        return []
    if not isinstance(arguments, list | tuple):
        arguments = [arguments]
    return [argument if isinstance(argument, str) else argument.name for argument in arguments]


def _declared(known: schema.OpSchema | None, name: str) -> AttrType | None:
    """The type of an attribute, where the operator or all operators declare it."""
    if name in COMMON:
        return COMMON[name]
    declared = known.attributes.get(name) if known else None
    return declared.kind if declared else None


class _OfDescriptions(type):
    """Makes operators, also as Fluid does: `Operator(block, block.desc.append_op(), "mul", ..)`."""

    def __call__(cls, block: Any, *given: Any, **options: Any) -> Any:
        if "desc" in options:
            return options.pop("desc").become(*given, **options)
        if given and not isinstance(given[0], str):
            return given[0].become(*given[1:], **options)
        return super().__call__(block, *given, **options)


class Operator(Described, metaclass=_OfDescriptions):
    """An operator of a block. Made by `Block.append_op`, seldom directly by users.

    Attributes are kept in the order given, each with its type, so that a program that was
    read from a file is written back as it was.
    """

    def __init__(
        self,
        block: Block,
        type: str,
        inputs: Slots | None = None,
        outputs: Slots | None = None,
        attrs: Mapping[str, Any] | None = None,
        attr_types: Mapping[str, AttrType] | None = None,
    ) -> None:
        self.block = block
        self.type = type
        self.inputs = {slot: argument_names(args) for slot, args in (inputs or {}).items()}
        self.outputs = {slot: argument_names(args) for slot, args in (outputs or {}).items()}
        self.attrs: dict[str, Any] = {}
        self.attr_types: dict[str, AttrType] = {}
        self.is_target: bool | None = None
        self.alias = ""
        found, given = schema.find(type) if attrs else None, attr_types or {}
        for name, value in (attrs or {}).items():
            if value is not None:
                self._put(name, value, given[name] if name in given else _declared(found, name))

    def _put(self, name: str, value: Any, kind: AttrType | None) -> None:
        kind = guess_type(value) if kind is None else kind
        try:
            self.attrs[name] = convert(value, kind)
        except (TypeError, ValueError) as error:
            given = shortened(repr(value))
            message = f"operator {self.type}: attribute {name}={given} is no {kind.name}"
            shorten_causes(error)
            raise TypeError(message) from error
        self.attr_types[name] = kind

    @property
    def title(self) -> str:
        """What messages call the operator: its type, or of one made of several the first's."""
        if self.alias:
            return self.alias
        base, ending, _ = self.type.partition("_grad")
        known = schema.find(base)
        return known.called + ending if known is not None and known.called else self.type

    @property
    def idx(self) -> int:
        """Position in the block; ValueError once it was removed."""
        for position, op in enumerate(self.block.ops):
            if op is self:
                return position
        raise ValueError(f"operator {self.type} is no longer in its block")

    @property
    def input_names(self) -> list[str]:
        return list(self.inputs)

    @property
    def output_names(self) -> list[str]:
        return list(self.outputs)

    @property
    def input_arg_names(self) -> list[str]:
        return [name for names in self.inputs.values() for name in names]

    @property
    def output_arg_names(self) -> list[str]:
        return [name for names in self.outputs.values() for name in names]

    @property
    def arg_names(self) -> list[str]:
        """Names in all slots."""
        return self.input_arg_names + self.output_arg_names

    @property
    def attr_names(self) -> list[str]:
        return list(self.attrs)

    def input(self, name: str) -> list[str]:
        """Names of the variables in an input slot (empty where the slot is not used)."""
        return list(self.inputs.get(name, []))

    def output(self, name: str) -> list[str]:
        """Names of the variables in an output slot."""
        return list(self.outputs.get(name, []))

    def has_attr(self, name: str) -> bool:
        return name in self.attrs

    def attr(self, name: str) -> Any:
        """Value of an attribute, or None where the operator has none of that name."""
        return self.attrs.get(name)

    def attr_type(self, name: str) -> AttrType:
        """Type of an attribute (KeyError when absent)."""
        return self.attr_types[name]

    def all_attrs(self) -> dict[str, Any]:
        """All attributes by name."""
        return dict(self.attrs)

    def set_attr(self, name: str, value: Any) -> None:
        """Sets an attribute; the program counts as changed."""
        self._put(name, value, _declared(schema.find(self.type), name))
        self.block.program.touch()

    _set_attr = set_attr

    def remove_attr(self, name: str) -> None:
        """Takes an attribute away, where the operator has it; the program counts as changed."""
        self.attrs.pop(name, None)
        self.attr_types.pop(name, None)
        self.block.program.touch()

    def rename_input(self, old: str, new: str) -> None:
        """Reads variable `new` wherever `old` was read."""
        self._rename(self.inputs, old, new)

    def rename_output(self, old: str, new: str) -> None:
        """Writes variable `new` wherever `old` was written."""
        self._rename(self.outputs, old, new)

    _rename_input, _rename_output = rename_input, rename_output

    def _rename(self, slots: dict[str, list[str]], old: str, new: str) -> None:
        for slot, names in slots.items():
            slots[slot] = [new if name == old else name for name in names]
        self.block.program.touch()

    def set_type(self, type: str) -> None:
        """Becomes an operator of another type with the same slots and attributes."""
        self.type = type
        self.block.program.touch()

    def set_input(self, slot: str, names: Iterable[str]) -> None:
        """Reads these variables in an input slot."""
        self._fill(self.inputs, slot, names)

    def set_output(self, slot: str, names: Iterable[str]) -> None:
        """Writes these variables in an output slot."""
        self._fill(self.outputs, slot, names)

    def _fill(self, slots: dict[str, list[str]], slot: str, names: Iterable[str]) -> None:
        slots[slot] = list(names)
        self.block.program.touch()

    @property
    def has_sub_blocks(self) -> bool:
        """Whether the operator runs blocks."""
        return any(True for _ in self.sub_blocks())

    def sub_blocks(self) -> Iterable[Block]:
        """Blocks that the operator runs."""
        for name, kind in self.attr_types.items():
            if kind == AttrType.BLOCK:
                yield self.attrs[name]
            elif kind == AttrType.BLOCKS:
                yield from self.attrs[name]

    def _block_attr(self, name: str) -> Block:
        """The block that an attribute is."""
        block: Block = self.attrs[name]
        return block

    def _block_attr_id(self, name: str) -> int:
        return self._block_attr(name).idx

    def _blocks_attr(self, name: str) -> list[Block]:
        """The blocks that an attribute is."""
        return list(self.attrs[name])

    def _blocks_attr_ids(self, name: str) -> list[int]:
        return [block.idx for block in self._blocks_attr(name)]

    def _is_optimize_op(self) -> bool:
        return bool(self.role & OpRole.OPTIMIZE)

    _remove_attr = remove_attr

    @property
    def callstack(self) -> Sequence[str]:
        """The user's source lines that made the operator, innermost last."""
        lines: Sequence[str] = self.attrs.get(CALLSTACK, [])
        return lines

    @property
    def made_at(self) -> str:
        """For messages: where in the user's source the operator was made."""
        return said(self.callstack)

    @property
    def role(self) -> int:
        """What the operator does in training: flags of `OpRole`."""
        return int(self.attrs.get(ROLE, OpRole.FORWARD))

    @property
    def role_pairs(self) -> list[tuple[str, str]]:
        """(parameter, gradient) for each that the operator finishes or uses."""
        names = self.attrs.get(ROLE_VAR) or []
        return list(zip(names[::2], names[1::2], strict=False))

    def to_string(self, throw_on_error: bool = False) -> str:  # noqa: ARG002
        """The operator as one line of the text form."""
        from refluid.ir.text import print_op

        return print_op(self)

    def __str__(self) -> str:
        return self.to_string()

    __repr__ = __str__
