"""Writes a network as a PyTorch module: submodules with their parameters, and `forward`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from refluid.analysis.uses import Key
from refluid.convert import rules
from refluid.convert.joining import join_biases
from refluid.convert.members import Members, Written
from refluid.convert.naming import Locals, Unique, identifier, module_name
from refluid.convert.reading import Kept, count_reads, counters_of, needed_ops
from refluid.convert.repeats import Repeat, find_repeats
from refluid.convert.site import Expression, LoopState, Site
from refluid.convert.source import Source
from refluid.convert.stacks import write_stack
from refluid.convert.statements import Statements, names_in
from refluid.convert.table import NoCounterpart, converter_of
from refluid.ir.block import Block
from refluid.ir.operator import Operator


def write(source: Source) -> Written:
    """The module of a network.

    Raises NoCounterpart that names every operator type without a converter.
    """
    return Writer(source).write()


class Writer(Statements):
    """Goes through the operators once."""

    def __init__(
        self,
        source: Source,
        kept: Kept | None = None,
        left: Counter[Key] | None = None,
        naming: Callable[[str], str] = module_name,
    ) -> None:
        """kept, left: some operators alone, and how often their values are read."""
        self.kept_ops = needed_ops(source) if kept is None else kept
        left = count_reads(self.kept_ops, source) if left is None else left
        super().__init__(source, Members(source, naming), left)
        self.biases = join_biases(source)
        self.counters = counters_of(self.kept_ops)
        self._left_out = {id(op) for one in self.counters.values() for op in one.tests}
        self._repeats: dict[int, Repeat] = {}

    def write(self) -> Written:
        source, done = self.source, self.done
        rules.load()
        ops = [op for kept in self.kept_ops.values() for op in kept]
        lacking = sorted({op.type for op in ops if converter_of(op.type) is None})
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
            self.values[0, name] = Expression(done.arguments[name], lengths=lengths)
        repeats = find_repeats(source, self.kept_ops[0], self.biases)
        self._repeats = {one.start: one for one in repeats}
        self.write_block(self._block)
        for name in source.fetches:
            done.results[name] = self.value(name).text
        return done

    def write_block(self, block: Block) -> None:
        """Writes the operators of a block."""
        around = self._block, self._next
        ops = self.kept_ops.get(block.idx, [])
        position = 0
        while position < len(ops):
            self._block = block
            repeat = self._repeats.get(position) if block.idx == 0 else None
            if repeat is not None and write_stack(self, repeat, ops):
                position = repeat.end
                continue
            self._next = ops[position + 1] if position + 1 < len(ops) else None
            self._write(ops[position])
            position += 1
        self._block, self._next = around

    def _write(self, op: Operator) -> None:
        skipped = self.biases.added_by.get(id(op))
        if skipped is not None:  # its result is the one of the operator that has the bias now
            source, result = skipped
            self._settle(op, {self.key(result): self.values[self.key(source)]})
            return
        if id(op) in self._left_out:
            self._settle(op, {})
            return
        converter = converter_of(op.type)
        assert converter is not None
        around = self._given
        self._given, self._tuple = {}, None
        converter(Site(self, op))
        given, self._given = self._given, around
        self._settle(op, given)

    # -- loops and branches ---------------------------------------------------

    def state(self, before: Key, after: Key, first: Expression) -> LoopState:
        """Gives a variable that a loop carries its local, with its first value."""
        local = self.fresh(*names_in([first]))
        self.line(f"{local} = {first.text}")
        self._locals.pin(local)
        return LoopState(before, after, local)

    @contextmanager
    def nested(self, block: Block, states: Sequence[LoopState] = ()) -> Iterator[None]:
        """Writes a block one step further in; what it carries is set at its end."""
        outer, self._states = self._states, {one.after: one for one in states}
        live = dict(self._holders)
        for local in live.values():
            self._locals.pin(local)
        self._depth += 1
        start = len(self.done.lines)
        self.write_block(block)
        inside = self._block
        self._block = block
        yield
        self._block = inside
        self._carry(states)
        if len(self.done.lines) == start:
            self.line("pass")
        self._depth -= 1
        self._states = outer
        for local in live.values():
            self._locals.unpin(local)
        for one in states:
            self.values[one.after] = Expression(one.local)
            self._holders[one.after] = one.local
            self._locals.unpin(one.local)

    def _carry(self, states: Sequence[LoopState]) -> None:
        """Sets the locals of what a loop carries, all at once where one reads another."""
        texts = {one.local: self.values[one.after].text for one in states}
        changed = {local: text for local, text in texts.items() if text != local}
        read = {word for text in changed.values() for word in re.findall(r"\w+", text)}
        if len(changed) > 1 and read & set(changed):
            self.line(f"{', '.join(changed)} = {', '.join(changed.values())}")
        else:
            for local, text in changed.items():
                self.line(f"{local} = {text}")
