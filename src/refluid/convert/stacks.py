"""Repeated parts of a network as a class and a list of its modules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from refluid.analysis.uses import key_of
from refluid.convert.members import Written
from refluid.convert.naming import identifier, module_name
from refluid.convert.reading import keys_read
from refluid.convert.repeats import Repeat
from refluid.convert.site import Expression
from refluid.convert.weights import Origin
from refluid.ir.operator import Operator

if TYPE_CHECKING:
    from refluid.convert.writer import Writer

_TOKENS = re.compile(r"[A-Za-z]+|\d+|[^A-Za-z0-9]+")


@dataclass
class Stack:
    """A class that is written, and the list of its modules: its name and how many there are."""

    kind: str
    attribute: str
    count: int
    written: Written
    results: list[str]


def write_stack(writer: Writer, repeat: Repeat, ops: Sequence[Operator]) -> bool:
    """Writes a repeated part; False where its values have sequences or no dimensions."""
    inputs = [*(name for name, _ in repeat.carried), *repeat.outer]
    values = [writer.value(name) for name in inputs]
    if any(one.lengths or one.scalar for one in values):
        return False
    first = ops[repeat.start : repeat.start + repeat.size]
    child = _child(writer, repeat, first, inputs)
    results = [child.value(name) for _, name in repeat.carried]
    if any(one.lengths or one.scalar for one in results):
        return False
    kind, attribute = _names(repeat)
    attribute = writer.members.names(attribute)
    taken = [one.kind for one in writer.done.stacks]
    number = sum(re.fullmatch(rf"{kind}\d*", one) is not None for one in taken)
    kind += str(number + 1) if number else ""
    texts = [one.text for one in results]
    writer.done.stacks.append(Stack(kind, attribute, repeat.count, child.done, texts))
    _place(writer, child.done, repeat, attribute)
    _call(writer, repeat, ops, attribute)
    return True


def _child(
    writer: Writer, repeat: Repeat, first: Sequence[Operator], inputs: Sequence[str]
) -> Writer:
    block = first[0].block
    left = Counter(key for op in first for key in keys_read(op))
    left.update(key_of(block, name) for _, name in repeat.carried)
    child = type(writer)(writer.source, {block.idx: list(first)}, left, _naming(repeat))
    for name in inputs:
        argument = child.fresh()
        child.done.arguments[name] = argument
        child.begin(key_of(block, name), Expression(argument))
    child.write_block(block)
    return child


def _names(repeat: Repeat) -> tuple[str, str]:
    """The class's name and the list's: of what the parameters' names begin with."""
    words = re.findall(r"[A-Za-z]+", _shared([*repeat.parameters[0]]))
    if not words:
        return "Block", "blocks"
    return "".join(one.capitalize() for one in words), identifier("_".join(words))


def _shared(names: Sequence[str]) -> str:
    """What all names begin with, up to a separator."""
    low, high = min(names), max(names)
    same = next((at for at, one in enumerate(low) if high[at : at + 1] != one), len(low))
    return low[: max(low[:same].rfind(one) for one in "._/") + 1]


def _naming(repeat: Repeat) -> Callable[[str], str]:
    """Submodules' names: what is the same in all copies, without what all names begin with."""
    skipped = len(_shared([*repeat.parameters[0]]))

    def name_of(parameter: str) -> str:
        names = [own[parameter] for own in repeat.parameters]
        tokens = [_TOKENS.findall(one) for one in names]
        own = _TOKENS.findall(parameter[skipped:])
        if len({len(one) for one in tokens}) == 1:
            kept = [same[0] for same in zip(*tokens, strict=True) if len(set(same)) == 1]
            prefix = _TOKENS.findall(parameter[:skipped])
            same_before = sum(
                len(set(one)) == 1 for one in list(zip(*tokens, strict=True))[: len(prefix)]
            )
            own = kept[same_before:]
        return module_name(re.sub(r"_+", "_", "".join(own)).strip("_.") or "layer")

    return name_of


def _place(writer: Writer, written: Written, repeat: Repeat, attribute: str) -> None:
    """The values of all copies' parameters, under the names of the list."""
    for number, own in enumerate(repeat.parameters):
        for key, origin in written.origins.items():
            weight = replace(origin.weight, name=own[origin.weight.name])
            value = writer.source.values[weight.name]
            place = f"{attribute}.{number}.{key}"
            writer.done.state[place] = weight.of(value)
            writer.done.origins[place] = Origin(weight, tuple(value.shape))
            if key in written.untrained:
                writer.done.untrained.append(place)
            if key in written.ties:
                writer.done.ties[place] = f"{attribute}.{number}.{written.ties[key]}"


def _call(writer: Writer, repeat: Repeat, ops: Sequence[Operator], attribute: str) -> None:
    """The loop over the list."""
    for name in repeat.outer:
        writer.held(name)
    outer = [writer.value(name).text for name in repeat.outer]
    locals_ = writer.replaced([name for name, _ in repeat.carried], ops[repeat.start : repeat.end])
    given = ", ".join((*locals_, *outer))
    writer.line(f"for layer in self.{attribute}:")
    writer.line(f"    {', '.join(locals_)} = layer({given})")
    last = ops[repeat.end - repeat.size : repeat.end]
    first = ops[repeat.start : repeat.start + repeat.size]
    for local, (_, name) in zip(locals_, repeat.carried, strict=True):
        place = next(
            (p, op.output_arg_names.index(name))
            for p, op in reversed(list(enumerate(first)))
            if name in op.output_arg_names
        )
        own = last[place[0]].output_arg_names[place[1]]
        key = key_of(last[0].block, own)
        writer.begin(key, Expression(local))
        writer.hold(key, local)
