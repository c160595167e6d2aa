"""Patterns of operators, written as a program's text is, and where they are found in a block.

    add: elementwise_add(X=x, Y=y) -> Out=sum
    act: relu|tanh(X=sum) -> Out=out
    act_grad: {act}_grad(Out=out, Out@GRAD=d_out) -> X@GRAD=d_sum

Each line is one operator: a label, the types it may have (`{act}` is the type found for `act`),
and for each slot a symbol. It stands for one version of a variable, so reused names don't confuse.
`X@GRAD=d_x?` may be missing. A slot that the line doesn't name must be unused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from refluid.analysis.uses import BlockUses, Version
from refluid.ir.names import EMPTY
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable

_LINE = re.compile(r"(?:(\w+):\s*)?([\w|{}]+)\((.*)\)\s*->\s*(.*)")
_INSIDE = re.compile(r"\s*\n\s*(?=[^()]*\))")  # a line break within parentheses
_SLOT = re.compile(r"([\w@]+)=(\w+)(\??)")


@dataclass(frozen=True)
class SlotPattern:
    """One slot of an operator in a pattern."""

    name: str
    symbol: str
    optional: bool


@dataclass(frozen=True)
class PatternNode:
    """One operator of a pattern."""

    label: str
    types: str
    inputs: tuple[SlotPattern, ...]
    outputs: tuple[SlotPattern, ...]


@dataclass(frozen=True)
class Match:
    """Operators found for a pattern's labels, and versions for its symbols (None: missing)."""

    uses: BlockUses
    positions: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, Version | None] = field(default_factory=dict)

    def op(self, label: str) -> Operator:
        """The operator found for a label."""
        return self.uses.block.ops[self.positions[label]]

    def name(self, symbol: str) -> str | None:
        """The variable that a symbol stands for."""
        version = self.versions.get(symbol)
        return None if version is None else version.name

    def var(self, symbol: str) -> Variable:
        """The variable that a symbol stands for; it must be there."""
        name = self.name(symbol)
        assert name is not None
        return self.uses.block.var_recursive(name)

    @property
    def types(self) -> dict[str, str]:
        """Label -> type found."""
        return {label: self.op(label).type for label in self.positions}


def parse_pattern(text: str) -> tuple[PatternNode, ...]:
    """The operators of a pattern in text form; ValueError for a line that is none."""
    joined = _INSIDE.sub(" ", text)
    return tuple(_node(line.strip()) for line in joined.strip().splitlines() if line.strip())


def _node(line: str) -> PatternNode:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError(f"no operator of a pattern: {line!r}")
    label, types, inputs, outputs = found.groups()
    return PatternNode(label or "", types, _slots(inputs), _slots(outputs))


def _slots(text: str) -> tuple[SlotPattern, ...]:
    return tuple(
        SlotPattern(name, symbol, mark == "?") for name, symbol, mark in _SLOT.findall(text)
    )


def find_matches(nodes: Sequence[PatternNode], uses: BlockUses) -> Iterator[Match]:
    """A match for each operator that the first line fits, if the other lines can be found."""
    for position in range(len(uses.block.ops)):
        start = _bound(Match(uses), nodes[0], position)
        found = None if start is None else complete(start, nodes[1:])
        if found is not None:
            yield found


def complete(match: Match, nodes: Sequence[PatternNode]) -> Match | None:
    """The match with operators for further lines, each of which shares a symbol with earlier."""
    if not nodes:
        return match
    for position in _candidates(match, nodes[0]):
        one = _bound(match, nodes[0], position)
        found = None if one is None else complete(one, nodes[1:])
        if found is not None:
            return found
    return None


def _candidates(match: Match, node: PatternNode) -> Iterable[int]:
    for slot in node.outputs:
        version = match.versions.get(slot.symbol)
        if version is not None:
            maker = match.uses.maker(version)
            return [] if maker is None else [maker]
    for slot in node.inputs:
        version = match.versions.get(slot.symbol)
        if version is not None:
            return match.uses.users(version)
    return []


def _bound(match: Match, node: PatternNode, position: int) -> Match | None:
    """The match with `node` being the operator at that position, or None if it is another."""
    op = match.uses.block.ops[position]
    types = node.types.format_map(match.types) if "{" in node.types else node.types
    if op.type not in types.split("|") or position in match.positions.values():
        return None
    versions = dict(match.versions)
    uses = match.uses
    for slots, given, version_at in (
        (node.inputs, op.inputs, uses.before),
        (node.outputs, op.outputs, uses.after),
    ):
        if not _fits(slots, given):
            return None
        for slot in slots:
            names = _present(given.get(slot.name, ()))
            version = version_at(position, names[0]) if names else None
            if slot.symbol in versions and versions[slot.symbol] != version:
                return None
            versions[slot.symbol] = version
    return Match(uses, {**match.positions, node.label: position}, versions)


def _fits(slots: Sequence[SlotPattern], given: Mapping[str, Sequence[str]]) -> bool:
    """Whether the operator's slots are those of the pattern, with one variable each."""
    optional = {slot.name: slot.optional for slot in slots}
    counts = {name: len(_present(names)) for name, names in given.items()}
    if any(count and name not in optional for name, count in counts.items()):
        return False
    wanted = {name: counts.get(name, 0) for name in optional}
    return all(count == 1 or (not count and optional[name]) for name, count in wanted.items())


def _present(names: Iterable[str]) -> list[str]:
    return [name for name in names if name != EMPTY]
