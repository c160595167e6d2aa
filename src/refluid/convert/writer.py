"""Writes a network as a PyTorch module: submodules with their parameters, and `forward`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from refluid.convert import rules
from refluid.convert.joining import join_biases
from refluid.convert.naming import Locals, Unique, identifier, module_name
from refluid.convert.site import Expression, Site, Weight, turned
from refluid.convert.source import Source
from refluid.convert.table import NoCounterpart, converter_of
from refluid.ir.operator import Operator

# A result that is used once, by the next operator, becomes a part of its line up to this length.
_INLINE = 48


@dataclass
class Written:
    """What the printer needs: submodules (name -> maker), statements, arguments, and the values.

    origins: key of `state` -> name and shape in Fluid, and whether it is transposed.
    """

    makers: dict[str, str] = field(default_factory=dict)
    state: dict[str, Tensor] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    arguments: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    origins: dict[str, tuple[str, list[int], bool]] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)


def write(source: Source) -> Written:
    """The module of a network.

    Raises NoCounterpart that names every operator type without a converter.
    """
    return Writer(source).write()


class Writer:
    """Goes through the operators once."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.done = Written()
        self.values: dict[str, Expression] = {}
        self.biases = join_biases(source)
        self._ops = _needed_ops(source)
        self._left = _reads(self._ops, source.fetches)
        self._names = Unique(("forward", "training", "train", "eval", "load_state_dict"))
        self._modules: dict[tuple[str, ...], str] = {}
        self._pending: dict[str, Expression] = {}
        self._next: Operator | None = None
        self._holders: dict[str, str] = {}

    def write(self) -> Written:
        source, done = self.source, self.done
        rules.load()
        lacking = sorted({op.type for op in self._ops if converter_of(op.type) is None})
        if lacking:
            raise NoCounterpart(f"no PyTorch for {len(lacking)} operators: {', '.join(lacking)}")
        unique = Unique(("self",))
        for name in source.feeds:
            done.arguments[name] = unique(identifier(name))
        for name in source.sequences():
            done.arguments[f"{name}@LENGTHS"] = unique(f"{done.arguments[name]}_lengths")
        self._locals = Locals(done.arguments.values())
        for name in source.feeds:
            lengths = done.arguments.get(f"{name}@LENGTHS", "")
            self.values[name] = Expression(done.arguments[name], lengths=lengths)
        for position, op in enumerate(self._ops):
            self._next = self._ops[position + 1] if position + 1 < len(self._ops) else None
            self._write(op)
        for name in source.fetches:
            done.results[name] = self.value(name).text
        return done

    def _write(self, op: Operator) -> None:
        skipped = self.biases.added_by.get(id(op))
        if skipped is not None:  # its result is the one of the operator that has the bias now
            source, result = skipped
            self._settle(op, {result: self.values[source]})
            return
        converter = converter_of(op.type)
        assert converter is not None
        self._given: dict[str, Expression] = {}
        self._tuple: tuple[Sequence[str | None], str, str] | None = None
        converter(Site(self, op))
        self._settle(op, self._given)

    # -- what sites ask -------------------------------------------------------

    def needs(self, name: str) -> bool:
        """Whether an operator that is written, or the user, reads a variable."""
        return self._left.get(name, 0) > 0

    def value(self, name: str) -> Expression:
        """The expression of a variable."""
        if name in self.values:
            return self.values[name]
        if name in self.source.values:
            found = self.values[name] = Expression(self._loose_parameter(name))
            return found
        raise NoCounterpart(f"variable {name!r} is neither fed nor saved nor computed before")

    def give(self, name: str, value: Expression) -> None:
        """An output of the operator at hand."""
        self._given[name] = value

    def give_all(self, names: Sequence[str | None], text: str, lengths: str) -> None:
        """Outputs of the operator at hand that come as a tuple."""
        self._tuple = names, text, lengths

    def module(self, maker: str, weights: Mapping[str, Weight]) -> str:
        """The submodule that has these parameters, made where there is none."""
        key = maker, *(f"{slot}={one.name}" for slot, one in sorted(weights.items()))
        name = self._modules.get(key)
        if name is None:
            first = next(iter(weights.values()))
            name = self._modules[key] = self._names(module_name(first.name))
            self.done.makers[name] = maker
            for slot, weight in weights.items():
                self._place(f"{name}.{slot}", weight)
        return f"self.{name}"

    def constant(self, name: str, text: str) -> str:
        """A tensor that is made once and moves with the module."""
        found = self._names(identifier(name))
        self.done.constants[found] = text
        return f"self.{found}"

    def _place(self, key: str, weight: Weight) -> None:
        value = self.source.values[weight.name]
        self.done.state[key] = value if weight.change is None else weight.change(value)
        self.done.origins[key] = weight.name, list(value.shape), weight.change is turned
        if weight.change is None:
            self.done.homes.setdefault(weight.name, key)

    def _loose_parameter(self, name: str) -> str:
        """A saved value that belongs to no submodule, or is read beside it."""
        if name in self.done.homes:
            return f"self.{self.done.homes[name]}"
        attribute = self._names(identifier(name))
        self.done.state[attribute] = value = self.source.values[name]
        self.done.origins[attribute] = name, list(value.shape), False
        self.done.homes[name] = attribute
        is_trained = self.source.values[name].is_floating_point() and _is_trained(self.source, name)
        (self.done.parameters if is_trained else self.done.buffers).append(attribute)
        return f"self.{attribute}"

    def held(self, name: str) -> str:
        """The variable as a name, put into a local variable where it is more than that."""
        value = self.value(name)
        simple = re.fullmatch(r"[\w.]+", value.text) is not None
        if not simple:
            local = self._locals.take(None, _names_in([value]))
            self._line(f"{local} = {value.text}")
            self._holders[name] = local
            self.values[name] = Expression(local, scalar=value.scalar, lengths=value.lengths)
        return self.values[name].text

    # -- statements -----------------------------------------------------------

    def _settle(self, op: Operator, given: Mapping[str, Expression]) -> None:
        """Puts what was given into variables, or into the next operator's line."""
        for name in op.input_arg_names:
            self._left[name] -= 1
        dying = [
            self._holders.pop(name)
            for name in dict.fromkeys(op.input_arg_names)
            if name in self._holders and not self._left.get(name)
        ]
        kept = dict.fromkeys(self._holders.values())
        dying = [one for one in dict.fromkeys(dying) if one not in kept]
        for name in dying:
            self._locals.free(name)
        self._avoided = _names_in(given.values()) if len(given) > 1 else set()
        if getattr(self, "_tuple", None) is not None:
            self._settle_tuple()
        for name, value in given.items():
            self.values[name] = value
            held = self._holder_of(value)
            if held is not None:
                self._holders[name] = held
            elif not self._stays_expression(name, value):
                local = self._locals.take(dying[0] if dying else None, self._avoided)
                dying = dying[1:]
                self._line(f"{local} = {value.text}")
                self._holders[name] = local
                self.values[name] = Expression(local, scalar=value.scalar, lengths=value.lengths)

    def _settle_tuple(self) -> None:
        assert self._tuple is not None
        names, text, lengths = self._tuple
        self._tuple = None
        found = []
        for name in names:
            local = "_" if name is None else self._locals.take()
            found.append(local)
            if name is not None:
                self._holders[name], self.values[name] = local, Expression(local, lengths=lengths)
        self._line(f"{', '.join(found)} = {text}")

    def _holder_of(self, value: Expression) -> str | None:
        """The local variable that a value is, where it is one already: it lives on."""
        if not value.text.isidentifier() or value.text in self.done.arguments.values():
            return None
        self._locals.keep(value.text)
        return value.text

    def _stays_expression(self, name: str, value: Expression) -> bool:
        if value.text.isidentifier() or (value.text.startswith("self.") and "(" not in value.text):
            return True
        following = self._next
        once = self._left.get(name) == 1 and name not in self.source.fetches
        if not once or following is None or name not in following.input_arg_names:
            return False
        return len(value.text) <= _INLINE

    def _line(self, text: str) -> None:
        self.done.lines.append(text)


def _needed_ops(source: Source) -> list[Operator]:
    """Operators that the fetches depend on, in order."""
    wanted, kept = set(source.fetches), []
    for op in reversed(source.ops):
        if wanted & set(op.output_arg_names):
            kept.append(op)
            wanted |= set(op.input_arg_names)
    return kept[::-1]


def _names_in(values: Iterable[Expression]) -> set[str]:
    return {word for value in values for word in re.findall(r"\w+", value.text)}


def _reads(ops: Sequence[Operator], fetches: Sequence[str]) -> Counter[str]:
    return Counter([*fetches, *(name for op in ops for name in op.input_arg_names)])


def _is_trained(source: Source, name: str) -> bool:
    var = source.program.global_block().vars.get(name)
    return bool(getattr(var, "trainable", False))
