"""Values of variables as expressions and locals, and the statements that set them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from refluid.analysis.uses import Key, key_of
from refluid.convert.members import Members
from refluid.convert.naming import Locals
from refluid.convert.reading import keys_read
from refluid.convert.site import Expression, LoopState
from refluid.convert.source import Source
from refluid.convert.table import NoCounterpart
from refluid.ir.operator import Operator

# A result that is used once, by the next operator, becomes a part of its line up to this length.
_INLINE = 48
_INDENT = "    "


class Statements:
    """What each variable is at this place of the code; writes lines where a value needs a name."""

    def __init__(self, source: Source, members: Members, left: Counter[Key]) -> None:
        self.source, self.members, self.done = source, members, members.done
        self.values: dict[Key, Expression] = {}
        self.lists: dict[str, str] = {}  # a list's local -> its end, where that is known
        self._block = source.program.global_block()
        self._locals = Locals(())
        self._left = left
        self._next: Operator | None = None
        self._holders: dict[Key, str] = {}
        self._states: dict[Key, LoopState] = {}
        self._given: dict[Key, Expression] = {}
        self._tuple: tuple[Sequence[str | None], str, str] | None = None
        self._depth = 0

    # -- what sites ask -------------------------------------------------------

    def key(self, name: str) -> Key:
        """The variable of that name where the operator at hand stands."""
        return key_of(self._block, name)

    def needs(self, name: str) -> bool:
        """Whether an operator that is written, or the user, reads a variable."""
        return self._left.get(self.key(name), 0) > 0

    def value(self, name: str) -> Expression:
        """The expression of a variable."""
        key = self.key(name)
        if key in self.values:
            return self.values[key]
        if name in self.source.values:
            found = self.values[key] = Expression(self.members.loose(name))
            return found
        raise NoCounterpart(f"variable {name!r} is neither fed nor saved nor computed before")

    def known(self, name: str) -> Expression | None:
        """The expression of a variable, None where it has none yet."""
        return self.values.get(self.key(name))

    def give(self, name: str, value: Expression) -> None:
        """An output of the operator at hand."""
        self._given[self.key(name)] = value

    def give_all(self, names: Sequence[str | None], text: str, lengths: str) -> None:
        """Outputs of the operator at hand that come as a tuple."""
        self._tuple = names, text, lengths

    def kept(self, lengths: str) -> str:
        """Lengths of sequences as a name that stays."""
        if not lengths:
            return ""
        if lengths.isidentifier():
            self._locals.pin(lengths)
            return lengths
        local = self.fresh_lengths()
        self.line(f"{local} = {lengths}")
        return local

    def fresh_lengths(self) -> str:
        """A name for lengths, which stays."""
        return self._locals.named("lengths")

    def held(self, name: str) -> str:
        """The variable as a name, put into a local variable where it is more than that."""
        value, key = self.value(name), self.key(name)
        if re.fullmatch(r"[\w.]+", value.text) is None:
            local = self._locals.take(None, names_in([value]))
            self.line(f"{local} = {value.text}")
            self._holders[key] = local
            self.values[key] = Expression(local, scalar=value.scalar, lengths=value.lengths)
        return self.values[key].text

    def fresh(self, *avoided: str) -> str:
        """A local variable that is nobody's until it is set or forgotten."""
        return self._locals.take(None, avoided)

    def fresh_list(self) -> str:
        """A name for a list, which stays."""
        return self._locals.named("steps")

    def fresh_counter(self) -> str:
        """A name for the number of a round."""
        return self._locals.named("step")

    def hold(self, key: Key, local: str) -> None:
        """The variable is in that local, which is free after its last use."""
        self._holders[key] = local

    def pinned(self, name: str) -> None:
        """Puts a variable into a local of its own that stays."""
        value, key = self.value(name), self.key(name)
        local = self._locals.named("branch")
        self.line(f"{local} = {value.text}")
        self.values[key] = Expression(local, lengths=value.lengths)

    def begin(self, key: Key, value: Expression) -> None:
        """Says what a variable is when a block begins."""
        self.values[key] = value

    def hold_for(self, op: Operator) -> None:
        """Puts what an operator's blocks read of others into names that stay while it runs."""
        for name in dict.fromkeys(name for _, name in keys_read(op)):
            if self.known(name) is not None:
                self.held(name)

    def replaced(self, names: Sequence[str], ops: Sequence[Operator]) -> list[str]:
        """Locals with the values of these variables, which operators read for the last time.

        Written are lines that copy what is read later too.
        """
        texts = [self.value(name) for name in names]
        for key in (key for op in ops for key in keys_read(op)):
            self._left[key] -= 1
        found: list[str] = []
        for name, value in zip(names, texts, strict=True):
            own = self._holders.get(self.key(name))
            alone = list(self._holders.values()).count(own) == 1 if own else False
            if own is not None and alone and not self._left[self.key(name)]:
                del self._holders[self.key(name)]
                found.append(own)
                continue
            local = self.fresh(*found, *names_in(texts))
            self.line(f"{local} = {value.text}")
            found.append(local)
        for key in [key for key in self._holders if not self._left.get(key)]:
            local = self._holders.pop(key)
            if local not in self._holders.values() and local not in found:
                self._locals.free(local)
        return found

    # -- statements -----------------------------------------------------------

    def _settle(self, op: Operator, given: Mapping[Key, Expression]) -> None:
        """Puts what was given into variables, or into the next operator's line."""
        keys = keys_read(op)
        for key in keys:
            self._left[key] -= 1
        dying = [
            self._holders.pop(key)
            for key in dict.fromkeys(keys)
            if key in self._holders and not self._left.get(key)
        ]
        kept = dict.fromkeys(self._holders.values())
        dying = [one for one in dict.fromkeys(dying) if one not in kept]
        dying = [one for one in dying if self._locals.free(one)]
        avoided = names_in(given.values()) if len(given) > 1 else set()
        if self._tuple is not None:
            self._settle_tuple()
        for key, value in given.items():
            self.values[key] = value
            held = self._holder_of(value)
            target = self._target(key, value)
            if target is not None:
                self._assign(key, target, value)
            elif held is not None:
                self._holders[key] = held
            elif not self._stays_expression(key, value):
                local = self._locals.take(dying[0] if dying else None, avoided)
                dying = dying[1:]
                self._assign(key, local, value)

    def _assign(self, key: Key, local: str, value: Expression) -> None:
        if value.text != local:
            self.line(f"{local} = {value.text}")
        self._holders[key] = local
        self.values[key] = Expression(local, scalar=value.scalar, lengths=value.lengths)

    def _target(self, key: Key, value: Expression) -> str | None:
        """The local of what a loop carries, where it can be set now: nobody reads the old value."""
        state = self._states.get(key)
        if state is None or value.text == state.local:
            return None
        if state.before != key and self._left.get(state.before):
            return None
        others = [one for other, one in self.values.items() if other != key and self._left[other]]
        others = [one for one in others if one is not self.values.get(state.before)]
        return None if state.local in names_in(others) else state.local

    def _settle_tuple(self) -> None:
        assert self._tuple is not None
        names, text, lengths = self._tuple
        self._tuple = None
        found = []
        for name in names:
            local = "_" if name is None else self._locals.take()
            found.append(local)
            if name is not None:
                key = self.key(name)
                self._holders[key], self.values[key] = local, Expression(local, lengths=lengths)
        self.line(f"{', '.join(found)} = {text}")

    def _holder_of(self, value: Expression) -> str | None:
        """The local variable that a value is, where it is one already: it lives on."""
        if not value.text.isidentifier() or value.text in self.done.arguments.values():
            return None
        self._locals.keep(value.text)
        return value.text

    def _stays_expression(self, key: Key, value: Expression) -> bool:
        if value.text.isidentifier() or (value.text.startswith("self.") and "(" not in value.text):
            return True
        following = self._next
        once = self._left.get(key) == 1 and not (key[0] == 0 and key[1] in self.source.fetches)
        if not once or following is None or following.has_sub_blocks:
            return False
        return key in keys_read(following) and len(value.text) <= _INLINE

    def line(self, text: str) -> None:
        """Writes a statement."""
        self.done.lines.append(_INDENT * self._depth + text)


def names_in(values: Iterable[Expression]) -> set[str]:
    return {word for value in values for word in re.findall(r"\w+", value.text)}
