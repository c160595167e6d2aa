"""`break`, `continue` and `return` within loops and branches become flags that later code asks.

    while a:                         broken = False
        if b:                        while a:            # stops: broken
            break            ->          if b:
        c()                                  broken = True
                                         else:
                                             c()

What follows a branch that always jumps goes into the other branch; what follows one that only may
jump is guarded by the flags.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from refluid.translate.building import (
    FreshNames,
    StatementList,
    ask,
    assign,
    assign_bool,
    load,
    placed,
    unnamed,
)

# How the names of flags start: they say that a function, a loop or a round of it was left.
FLAGS = RETURNED, BROKEN, SKIPPED = "returned", "broken", "skipped"
_JUMPS = (ast.Return, ast.Break, ast.Continue)
_BODIES = (ast.If, ast.While, ast.For, ast.With, ast.Try)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass
class _LoopFlags:
    broken: str
    skipped: str


def lowered(body: Sequence[ast.stmt], names: FreshNames) -> StatementList:
    """The body of a function without jumps but one `return` at its end."""
    if not any(_jumps_inside(one) for one in body):
        return [*body]
    lowering = _Lowering(names)
    if not any(_jumps_inside(one, (ast.Return,)) for one in body):
        lowering.returns = False
        found, _ = lowering.block(body, None)
        return _without_unread(found, lowering.flags)
    whole = [*body]
    if not _always_jumps(whole):
        whole += placed([ast.Return(ast.Constant(None))], whole[-1])
    found, _ = lowering.block(whole, None)
    start = [assign(lowering.value, ask("nothing")), assign_bool(lowering.returned, False)]
    end: StatementList = [ast.Return(ask("result", load(lowering.value)))]
    found = [*placed(start, body[0]), *found, *placed(end, body[-1])]
    return _without_unread(found, lowering.flags)


def _jumps_inside(node: ast.AST, kinds: tuple[type[ast.stmt], ...] = _JUMPS) -> bool:
    """Whether a statement has jumps inside; one that is a jump hasn't."""
    return any(
        isinstance(child, kinds) or (not isinstance(child, _SCOPES) and _jumps_inside(child, kinds))
        for child in ([] if isinstance(node, _SCOPES) else ast.iter_child_nodes(node))
    )


def _always_jumps(body: Sequence[ast.stmt]) -> bool:
    for one in body:
        if isinstance(one, (*_JUMPS, ast.Raise)):
            return True
        if isinstance(one, ast.If) and _always_jumps(one.body) and _always_jumps(one.orelse):
            return True
        if isinstance(one, ast.With) and _always_jumps(one.body):
            return True
    return False


class _Lowering:
    def __init__(self, names: FreshNames) -> None:
        self.names = names
        self.returned, self.value = names.new(RETURNED), names.new("value")
        self.flags = {self.returned}
        self.returns = True

    def block(
        self, body: Sequence[ast.stmt], loop: _LoopFlags | None
    ) -> tuple[StatementList, set[str]]:
        """The statements, and the flags that they may set."""
        found: StatementList = []
        for number, one in enumerate(body):
            rest = [*body[number + 1 :]]
            if isinstance(one, ast.If) and rest and _jumps_inside(one):
                first, other = _always_jumps(one.body), _always_jumps(one.orelse)
                if first or other:
                    one = ast.copy_location(
                        ast.If(
                            one.test,
                            one.body if first else [*one.body, *rest],
                            one.orelse if other else [*one.orelse, *rest],
                        ),
                        one,
                    )
                    rest = []
            made, flags = self._statement(one, loop)
            found += made
            if isinstance(one, (*_JUMPS, ast.Raise)):
                return found, flags
            if flags:
                if rest:
                    later, more = self.block(rest, loop)
                    found += placed([ast.If(_none_of(flags), later, [])], rest[0])
                    flags = flags | more
                return found, flags
            if not rest:
                break
        return found, set()

    def _statement(self, one: ast.stmt, loop: _LoopFlags | None) -> tuple[StatementList, set[str]]:
        match one:
            case ast.Return() if self.returns:
                value = ast.Constant(None) if one.value is None else one.value
                kept = ask("result", value) if one.value is None else value
                return self._set(one, self.returned, assign(self.value, kept))
            case ast.Break():
                assert loop is not None
                return self._set(one, loop.broken)
            case ast.Continue():
                assert loop is not None
                return self._set(one, loop.skipped)
            case ast.While() | ast.For():
                return self._loop(one, loop)
            case ast.If() | ast.With() | ast.Try() | ast.Match():
                return self._compound(one, loop)
        return [one], set()

    def _set(self, where: ast.stmt, flag: str, *before: ast.stmt) -> tuple[StatementList, set[str]]:
        return placed([*before, assign_bool(flag, True)], where), {flag}

    def _compound(self, one: ast.stmt, loop: _LoopFlags | None) -> tuple[StatementList, set[str]]:
        if not _jumps_inside(one):
            return [one], set()
        flags: set[str] = set()
        before: set[str] = set()
        parts: list[ast.AST] = [one]
        parts += [*getattr(one, "handlers", []), *getattr(one, "cases", [])]
        for part in parts:
            for field in ("body", "orelse", "finalbody"):
                body = getattr(part, field, None)
                if not body:
                    continue
                made, more = self.block(body, loop)
                if isinstance(one, ast.Try) and field == "orelse" and before:
                    made = placed([ast.If(_none_of(before), made, [])], body[0])
                if field == "body":
                    before = more
                setattr(part, field, made)
                flags |= more
        return [one], flags

    def _loop(
        self, one: ast.While | ast.For, outer: _LoopFlags | None
    ) -> tuple[StatementList, set[str]]:
        inner = _LoopFlags(self.names.new(BROKEN), self.names.new(SKIPPED))
        body, flags = self.block(one.body, inner)
        other, more = self.block(one.orelse, outer) if one.orelse else ([], set())
        stops = flags & {inner.broken, self.returned}
        starts: StatementList = []
        if inner.broken in flags:
            self.flags.add(inner.broken)
            starts = placed([assign_bool(inner.broken, False)], one)
        if inner.skipped in flags:
            self.flags.add(inner.skipped)
            body = [*placed([assign_bool(inner.skipped, False)], one.body[0]), *body]
        one.body, one.orelse = body, []
        one.stops = sorted(stops)  # type: ignore[union-attr]
        after: StatementList = []
        if other:
            after = placed([ast.If(_none_of(stops), other, [])], other[0]) if stops else other
        return [*starts, one, *after], (flags & {self.returned}) | more


def _any_of(flags: set[str]) -> ast.expr:
    names = [load(flag) for flag in sorted(flags)]
    return names[0] if len(names) == 1 else ast.BoolOp(ast.Or(), names)


def _none_of(flags: set[str]) -> ast.expr:
    return ast.UnaryOp(ast.Not(), _any_of(flags))


def stopping(node: ast.While | ast.For) -> ast.expr:
    """`lambda: (broken, returned)` of a loop: it goes on while none of these holds."""
    stops = [load(flag) for flag in getattr(node, "stops", ())]
    return unnamed(ast.Tuple([*stops], ast.Load()))


def _without_unread(body: StatementList, flags: set[str]) -> StatementList:
    """Without flags that nobody asks."""
    read = {
        one.id
        for statement in body
        for one in ast.walk(statement)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)
    }
    for statement in body:
        for one in ast.walk(statement):
            read |= set(getattr(one, "stops", ()))
    return _Dropping(flags - read).within(body)


class _Dropping(ast.NodeTransformer):
    def __init__(self, flags: set[str]) -> None:
        self.flags = flags

    def within(self, body: StatementList) -> StatementList:
        found: StatementList = []
        for one in body:
            kept = self.visit(one)
            if kept is not None:
                found.append(kept)
        return found

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | None:
        target = node.targets[0]
        return None if isinstance(target, ast.Name) and target.id in self.flags else node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, _BODIES) and not node.body:
            node.body = placed([ast.Pass()], node)
        return node
