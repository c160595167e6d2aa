"""Rules: what is found is replaced by one operator, forward and backward together.

A rule fires only where nothing can tell the difference: no other operator, fetch or block reads
what it removes, and nothing between the old places and the new one gets in the way. Where the
pattern fits and the rule doesn't fire there is a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from refluid.analysis.uses import Version, blocks_in_use, names_in_use, uses_in
from refluid.ir.attributes import CALLSTACK, COMMON, DEVICE, NAMESCOPE, ROLE, ROLE_VAR
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.names import EMPTY
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.passes.pattern import (
    Match,
    PatternNode,
    SlotPattern,
    complete,
    find_matches,
    parse_pattern,
)
from refluid.passes.protocol import Options, Refusal, Report

Objection = Callable[[Match], "str | None"]
# The reason of a check for leaving a place to the next rule of its pass.
ANOTHER = "another rule's"


def _never(_match: Match) -> str | None:
    return None


@dataclass(frozen=True)
class Rule:
    """forward -> fused and, in training programs, backward -> fused_backward.

    attrs: the attributes of both fused operators. backward_attrs: of the backward one, where it has
    others. check: the reason not to fire, or None.
    early: the fused operator stands where the first of the found ones stood, not the last;
    early_backward: the backward one alone.
    kept: symbols of variables that the fused operator makes for the backward one, and their shapes.
    Without `backward` the backward pass stays as it is.
    """

    forward: str
    fused: str
    backward: str
    fused_backward: str
    attrs: Callable[[Match], Mapping[str, Any]]
    check: Objection = _never
    early: bool = False
    early_backward: bool = False
    backward_attrs: Callable[[Match], Mapping[str, Any]] | None = None
    kept: Mapping[str, Callable[[Match], Sequence[int]]] = field(default_factory=dict)

    @cached_property
    def halves(self) -> tuple[tuple[tuple[PatternNode, ...], PatternNode], ...]:
        """(operators found, operator put in their place), forward and, if any, backward."""
        both = ((self.forward, self.fused), (self.backward, self.fused_backward))
        return tuple((parse_pattern(found), parse_pattern(put)[0]) for found, put in both if found)

    @property
    def backward_nodes(self) -> tuple[PatternNode, ...]:
        """The operators found in the backward pass."""
        return self.halves[1][0] if self.backward else ()

    @cached_property
    def starts(self) -> frozenset[str]:
        """Types of the first operator."""
        return frozenset(self.halves[0][0][0].types.split("|"))


def apply(rules: Sequence[Rule], program: Program, options: Options) -> Report:
    """Applies rules to all blocks in use, in place."""
    report = Report()
    for block in blocks_in_use(program):
        for rule in rules:
            _apply(rule, block, options.kept, report)
    return report


def _apply(rule: Rule, block: Block, kept: frozenset[str], report: Report) -> None:
    if not any(op.type in rule.starts for op in block.ops):
        return
    taken: set[int] = set()
    placed: dict[int, Operator] = {}
    for found in find_matches(rule.halves[0][0], uses_in(block)):
        match = complete(found, rule.backward_nodes) or found
        if taken & set(match.positions.values()):
            continue
        reason = rule.check(match) or _obstacle(rule, match, kept)
        if reason is not None:
            if reason != ANOTHER:
                report.refused.append(Refusal(" + ".join(match.types.values()), reason))
            continue
        if rule.kept and len(match.positions) > len(found.positions):
            match = _keeping(rule, match)
        for nodes, fused in _present_halves(rule, match):
            op = _fused(rule, match, nodes, fused)
            placed[_place(rule, match, nodes)] = op
            report.made.append(op.type)
        taken |= set(match.positions.values())
    if taken:
        _replace(block, taken, placed)


def _keeping(rule: Rule, match: Match) -> Match:
    """The match with new variables for what the fused operator keeps for the backward one."""
    block, versions = match.uses.block, dict(match.versions)
    first = versions[rule.halves[0][1].outputs[0].symbol]
    assert first is not None
    out = block.var_recursive(first.name)
    for symbol, shape in rule.kept.items():
        name = f"{out.name}@{symbol.upper()}_{first.number}"
        block.create_var(name=name, shape=shape(match), dtype=out.dtype, stop_gradient=True)
        versions[symbol] = Version(name, 1)
    return replace(match, versions=versions)


def _replace(block: Block, taken: set[int], placed: dict[int, Operator]) -> None:
    """Puts operators into the place of those taken; variables that were theirs alone go."""
    ops = [placed.get(p, op) for p, op in enumerate(block.ops) if p in placed or p not in taken]
    former = {name for position in taken for name in block.ops[position].arg_names}
    editor = Editor(block)
    editor.assign(ops)
    editor.forget_variables(former - names_in_use(block.program))


def _present_halves(
    rule: Rule, match: Match
) -> Iterator[tuple[tuple[PatternNode, ...], PatternNode]]:
    for nodes, fused in rule.halves:
        if nodes[0].label in match.positions:
            yield nodes, fused


def _place(rule: Rule, match: Match, nodes: Sequence[PatternNode]) -> int:
    positions = [match.positions[node.label] for node in nodes]
    backward = nodes is not rule.halves[0][0]
    return min(positions) if rule.early or (backward and rule.early_backward) else max(positions)


def _obstacle(rule: Rule, match: Match, kept: frozenset[str]) -> str | None:
    """Why replacing the match would change what others see."""
    own = set(match.positions.values())
    remains: set[str] = set()
    for nodes, fused in _present_halves(rule, match):
        place = _place(rule, match, nodes)
        remains |= {slot.symbol for slot in fused.inputs + fused.outputs}
        for node in nodes:
            at = match.positions[node.label]
            for slot in (*node.inputs, *node.outputs):
                reads = slot in node.outputs
                blocker = _between(match, slot, at, place, own, reads=reads)
                if blocker is not None:
                    return blocker
    removed = {
        slot.symbol
        for nodes, _ in _present_halves(rule, match)
        for node in nodes
        for slot in node.outputs
    } - remains
    return next(filter(None, (_needed(match, one, own, kept) for one in sorted(removed))), None)


def _between(
    match: Match, slot: SlotPattern, at: int, place: int, own: set[int], *, reads: bool
) -> str | None:
    name = match.name(slot.symbol)
    if name is None or at == place:
        return None
    others = [one for one in match.uses.between(name, at, place, reads=reads) if one not in own]
    if not others:
        return None
    return f"{match.uses.block.ops[others[0]].type} uses {name} in between"


def _needed(match: Match, symbol: str, own: set[int], kept: frozenset[str]) -> str | None:
    """Who else needs a value that would be removed."""
    version = match.versions.get(symbol)
    if version is None:
        return None
    name, uses = version.name, match.uses
    var = uses.block.vars.get(name)
    if name in kept:
        return f"{name} is fetched"
    if var is None or var.persistable or name in uses.shared or uses.users(uses.before(0, name)):
        return f"{name} is used outside of this run of the block"
    others = [uses.block.ops[one].type for one in uses.users(version) if one not in own]
    return f"{name} is also read by {others[0]}" if others else None


def _fused(rule: Rule, match: Match, nodes: Sequence[PatternNode], fused: PatternNode) -> Operator:
    """The operator that replaces the nodes; it has the role and the user's line of the first."""
    ops = [match.op(node.label) for node in nodes]
    common = {name: ops[0].attrs.get(name) for name in (ROLE, NAMESCOPE, CALLSTACK, DEVICE)}
    pairs = [pair for op in ops for pair in op.role_pairs]
    common[ROLE_VAR] = [name for pair in dict.fromkeys(pairs) for name in pair]
    attrs = rule.attrs if nodes is rule.halves[0][0] else rule.backward_attrs or rule.attrs
    own = {name: value for name, value in attrs(match).items() if name not in COMMON}
    made = ops[0].block.make_op(
        fused.types.format_map(match.types) if "{" in fused.types else fused.types,
        _arguments_of(match, fused.inputs),
        _arguments_of(match, fused.outputs),
        {**own, **common},
    )
    made.alias = ops[0].title
    return made


def _arguments_of(match: Match, slots: Sequence[SlotPattern]) -> dict[str, list[str]]:
    found = {slot.name: match.name(slot.symbol) for slot in slots}
    return {slot: [name] for slot, name in found.items() if name is not None and name != EMPTY}
