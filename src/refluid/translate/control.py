"""StatementList: `if`, `while`, `for` and `assert` become calls that are given their parts.

    if test:                 def then_0():
        x = a                    nonlocal x
    else:              ->        x = a
        x = b                ..
                             _translated.branch(test, then_0, else_0, state_0)

The state of a statement gets and sets all that its parts change. Parts are functions within the
function, so that Python's names mean the same in them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from refluid.translate.building import (
    FreshNames,
    StatementList,
    ask,
    assign,
    function,
    load,
    placed,
    unnamed,
)
from refluid.translate.changed import bound, changed
from refluid.translate.jumps import stopping

_PARTS = ("body", "orelse", "finalbody", "handlers", "cases")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Control:
    """Rewrites the statements of a function.

    own: the function's own variables. shared, outer: those that it declares `global` and
    `nonlocal`. hoisted: own ones that parts set, which must exist from the start.
    """

    def __init__(self, names: FreshNames, own: set[str], shared: set[str], outer: set[str]) -> None:
        self.names = names
        self.own, self.shared, self.outer = own, shared, outer
        self.hoisted: dict[str, None] = {}

    def block(self, body: Sequence[ast.stmt]) -> StatementList:
        """The statements, rewritten."""
        found: StatementList = []
        for one in body:
            found += self._statement(one)
        return found

    def _statement(self, one: ast.stmt) -> StatementList:
        match one:
            case ast.If():
                return self._branch(one)
            case ast.While():
                return self._while(one)
            case ast.For():
                return self._for(one)
            case ast.Assert():
                message = ast.Constant(None) if one.msg is None else unnamed(one.msg)
                return placed([ast.Expr(ask("check", one.test, message))], one)
            case ast.Delete():
                return self._delete(one)
        if not isinstance(one, _SCOPES):
            self._inside(one)
        return [one]

    def _inside(self, node: ast.AST) -> None:
        for field in _PARTS:
            parts = getattr(node, field, None)
            if isinstance(parts, list) and parts and isinstance(parts[0], ast.stmt):
                setattr(node, field, self.block(parts))
            elif isinstance(parts, list):
                for part in parts:
                    self._inside(part)

    def _delete(self, one: ast.Delete) -> StatementList:
        made: StatementList = []
        for target in one.targets:
            if isinstance(target, ast.Name) and target.id in self.own:
                made.append(assign(target.id, ask("unset", ast.Constant(target.id))))
            else:
                made.append(ast.Delete([target]))
        return placed(made, one)

    def _branch(self, one: ast.If) -> StatementList:
        places = changed([*one.body, *one.orelse])
        then, other = self.names.new("then"), self.names.new("otherwise")
        before, state = self._state(places)
        made = [
            *before,
            self._part(then, (), one.body),
            self._part(other, (), one.orelse),
            ast.Expr(ask("branch", one.test, load(then), load(other), state)),
        ]
        return placed(made, one)

    def _while(self, one: ast.While) -> StatementList:
        places = changed([*one.body, ast.Expr(one.test)])
        body = self.names.new("body")
        before, state = self._state(places)
        made = [
            *before,
            self._part(body, (), one.body),
            ast.Expr(ask("repeat", unnamed(one.test), load(body), state, stopping(one))),
        ]
        return [*placed(made, one), *self.block(one.orelse)]

    def _for(self, one: ast.For) -> StatementList:
        places = changed([one.target, *one.body])
        body, item = self.names.new("body"), self.names.new("item")
        before, state = self._state(places)
        taken = ast.copy_location(ast.Assign([one.target], load(item)), one)
        made = [
            *before,
            self._part(body, (item,), [taken, *one.body]),
            ast.Expr(ask("each", one.iter, load(body), state, stopping(one))),
        ]
        return [*placed(made, one), *self.block(one.orelse)]

    def _part(self, name: str, parameters: Sequence[str], body: Sequence[ast.stmt]) -> ast.stmt:
        return function(name, parameters, [*self._declared(bound(body)), *self.block(body)])

    def _declared(self, places: Sequence[str]) -> StatementList:
        """What a part says of the names that it sets."""
        own = [one for one in places if one in self.own or one in self.outer]
        shared = [one for one in places if one in self.shared]
        self.hoisted |= dict.fromkeys(one for one in own if one in self.own)
        made: StatementList = [ast.Nonlocal(own)] if own else []
        return [*made, ast.Global(shared)] if shared else made

    def _state(self, places: Sequence[str]) -> tuple[StatementList, ast.expr]:
        """What makes the state, and the state."""
        if not places:
            return [], ask("state", unnamed(ast.Tuple([], ast.Load())), ast.Constant(None))
        values = [self._value(one) for one in places]
        get = unnamed(ast.Tuple(values, ast.Load()))
        name, given = self.names.new("put"), self.names.new("given")
        sets = [one for one in places if "." not in one and self._settable(one)]
        body: StatementList = self._declared(sets)
        for number, place in enumerate(places):
            value = ast.Subscript(load(given), ast.Constant(number), ast.Load())
            if place in sets:
                body.append(assign(place, value))
            elif "." in place:
                owner, _, attribute = place.rpartition(".")
                put = ask("put", unnamed(load(owner)), ast.Constant(attribute), value)
                body.append(ast.Expr(put))
        names = ast.Tuple([ast.Constant(one) for one in places], ast.Load())
        return [function(name, [given], body)], ask("state", get, load(name), names)

    def _settable(self, name: str) -> bool:
        return name in self.own or name in self.shared or name in self.outer

    def _value(self, place: str) -> ast.expr:
        if "." in place or place in self.shared or not self._settable(place):
            return ask("look", unnamed(load(place)), ast.Constant(place))
        return load(place)
