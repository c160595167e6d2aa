"""The memory that a plan will need, from its steps and shapes alone: before anything has run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from refluid.analysis.shapes import Shapes
from refluid.analysis.uses import key_of
from refluid.ir.names import EMPTY
from refluid.ir.operator import Operator
from refluid.ops.registry import facts_of, find, nested_of
from refluid.runtime.codegen import WrittenPlan, write_plan
from refluid.runtime.request import UNWATCHED, Request
from refluid.runtime.steps import Bind, Call, Clear, Compound, For, Free, Load, Step, While
from refluid.runtime.trees import FED, IGNORED, Formula, Name, Tree, leaves


@dataclass(frozen=True)
class Planned:
    """peak: most bytes at once, `state` (parameters and the like) and feeds included, when
    `operator` runs, number `position` of the block."""

    peak: int
    state: int
    operator: str
    position: int


def planned_peak(request: Request, fed: Mapping[str, tuple[int, ...]]) -> Planned:
    """The peak of one run with feeds of these shapes.

    Shapes are inferred from those of the feeds; a size that depends on values counts as the
    first one of the first feed. A loop counts with what it keeps of every round: as many as there
    are time steps, or such that all rows of the first feed are seen once. Of what operators keep
    inside themselves only that of recurrent ones is known.
    """
    written = write_plan(replace(request, threads=1, instruments=UNWATCHED))
    shapes = Shapes(request.block, fed)
    played = _Played(written, shapes, request.memory.garbage if request.memory.collects else 0)
    played.play(written.source.steps)
    keys = written.variables.state
    state = sum(shapes.bytes(key) for key in keys if shapes.persistable(key))
    position, operator = 0, played.operator
    if operator is not None:
        position = next((n for n, op in enumerate(request.block.ops) if op is operator), 0)
    return Planned(state + played.peak, state, operator.type if operator else "", position)


Places = frozenset[int]
NOTHING: Places = frozenset()
# Expressions whose result is memory of its own: what functions return, copies.
_MAKING = ("{}(", "{}.clone")
_SHAPE = "{}({})"
_ITEMS = ("read_item", "write_item")


class _Played:
    """Plays a plan without tensors: which memory is held under which name, and its bytes.

    peak: the most bytes at once, the scope's not included, and `operator` the one that ran then.
    """

    def __init__(self, written: WrittenPlan, shapes: Shapes, limit: float) -> None:
        names = written.variables.names
        self.names, self.keys = names, {name: key for key, name in names.items()}
        self.shapes, self.inner, self.limit = shapes, shapes, limit
        self.held: dict[Name, Places] = {}
        self.records: dict[Name, list[Places]] = {}
        self.garbage: Places = NOTHING
        self.sizes: list[tuple[int, int]] = []
        self.others: dict[int, int] = {}
        self.sums: dict[Name, Places] = {}
        self.peak = 0
        self.operator: Operator | None = None
        # The operator of the block whose loop is played, how many rounds it has, and the first
        # memory that a round makes.
        self.top: Operator | None = None
        self.rounds, self.first = 1, 0

    def play(self, steps: Sequence[Step]) -> None:
        """Plays steps, in the order in which they run."""
        for step in steps:
            if isinstance(step, Compound):
                self._block(step)
            elif isinstance(step, Call):
                self._call(step)
            elif isinstance(step, Bind):
                self._bind(step)
            elif isinstance(step, Load):
                self.held[step.target] = NOTHING
            elif isinstance(step, Free):
                self._free(step)
            elif isinstance(step, Clear):
                self._drop(step.names)
            self._look(step.op)

    def _look(self, op: Operator | None, inside: int = 0) -> None:
        """Takes the present for the peak, if it is."""
        now = self._bytes(self.garbage.union(*self.held.values())) + inside
        if now > self.peak:
            self.peak, self.operator = now, self.top or op or self.operator

    def _bytes(self, memory: Places) -> int:
        return sum(self.sizes[one][0] for one in memory)

    def _new(self, name: Tree) -> Places:
        """Places for what a variable holds, as large as it is in a round, and as it is for all."""
        key = self.keys.get(name) if isinstance(name, Name) else None
        if key is None:
            return NOTHING
        self.sizes.append((self.inner.bytes(key), self.shapes.bytes(key)))
        return frozenset({len(self.sizes) - 1})

    def _in(self, tree: Tree) -> Places:
        """All memory that is held under the names of a tree."""
        return NOTHING.union(
            *(self.held.get(one, NOTHING) for one in leaves(tree) if isinstance(one, Name))
        )

    # -- steps ----------------------------------------------------------------

    def _bind(self, step: Bind) -> None:
        value = step.value
        if step.target is None:
            self._grow(value)
        elif value is FED:
            for name in step.target:
                fed = not self.shapes.persistable(self.keys[name])
                self.held[name] = self._new(name) if fed else NOTHING
        elif isinstance(value, tuple):
            self._keep(step.target, value)
        elif isinstance(step.target, tuple):
            record = next(one for one in leaves(value) if isinstance(one, Name))
            self.held |= zip(step.target, self.records.get(record, ()), strict=False)
        elif isinstance(value, Formula) and value.form.startswith(_MAKING):
            self._give(step.target, None)
        elif isinstance(value, Formula) and value.form.startswith("{}.result"):
            total = self.sums.get(value.parts[0])
            self.held[value.parts[0]] = total or NOTHING
            self._give(step.target, total)
        else:
            counts = isinstance(value, Formula) and "len(" in value.form
            self._give(step.target, NOTHING if counts else self._in(value))

    def _grow(self, value: Formula) -> None:
        """What is appended to a list, or added to a sum, is held by that."""
        holder, *given = value.parts
        if not value.form.startswith("{}.append"):  # to the sum over the rounds before
            self.sums[holder] = frozenset({len(self.sizes)})
            self.sizes.append((self._bytes(self._in(given)), 0))
            self.held[holder] = self.sums[holder] | self._in(given)
            return
        kept = given[0] if isinstance(given[0], tuple) else tuple(given)
        self._keep(holder, kept)
        mine = {one for one in self.held[holder] if one >= self.first}
        self.held[holder] |= set(map(self._of_other_rounds, mine))

    def _of_other_rounds(self, one: int) -> int:
        """Places that stands for that of all other rounds, whoever holds it."""
        if one not in self.others:
            now, whole = self.sizes[one]
            self.others[one] = len(self.sizes)
            self.sizes.append((max(0, self.rounds * whole - now), 0))
        return self.others[one]

    def _keep(self, record: Name, kept: tuple[Tree, ...]) -> None:
        """What a round leaves for its gradient; of what only the shape is kept, nothing."""
        self.records[record] = [
            NOTHING if isinstance(one, Formula) and one.form == _SHAPE else self._in(one)
            for one in kept
        ]
        self.held[record] = NOTHING.union(*self.records[record])

    def _give(self, target: Tree, memory: Places | None) -> None:
        """Places becomes that of the target's variables; None: each has new memory."""
        for name in leaves(target):
            if isinstance(name, Name):
                self.held[name] = self._new(name) if memory is None else memory

    def _free(self, step: Free) -> None:
        if step.garbage:
            self.garbage |= self._in(step.names)
            if self._bytes(self.garbage) >= self.limit:
                self.garbage = NOTHING
        self._drop(step.names)

    def _drop(self, names: Sequence[Name]) -> None:
        for name in names:
            self.held.pop(name, None)

    def _call(self, step: Call) -> None:
        op, given = step.op, self._in((step.args, *step.kwargs.values()))
        if op is None:  # a stand-in of some shape
            self._give(step.target, NOTHING)
            return
        if step.function in _ITEMS:
            self._item(step)
            return
        made = {name: self._shared(step, op, name) for name in leaves(step.target) if name}
        self.held |= made
        first = step.target[0] if isinstance(step.target, tuple) else None
        if isinstance(first, Name) and first not in self.keys and first != IGNORED:
            self.held[first] = given.union(*made.values())  # autograd's recording
        self._look(op, self._working(op))

    def _item(self, step: Call) -> None:
        """Reads an item of an array, or writes one: it lies in the array, which has its full size
        from the first one on."""
        array = step.args[0]
        memory = self.held.get(array, NOTHING)
        target = step.target[0] if isinstance(step.target, tuple) else step.target
        if target == array:
            value = step.args[2]
            if not memory:
                size = self.shapes.bytes(self.keys[array])
                self.sizes.append((size, size))
                memory = frozenset({len(self.sizes) - 1})
            if isinstance(value, Name):
                self.held[value] = memory
        self.held[target] = memory

    def _shared(self, step: Call, op: Operator, name: Name) -> Places:
        """The memory of one result: that of an input where it is a view or overwrites it."""
        definition = find(op.type)
        if name in step.changes or name not in self.keys or definition is None:
            return self._in(name) if name in step.changes else self._new(name)
        changed = self._source(op, name, definition.mutates)
        if changed in step.changes:
            return self._in(changed)
        seen = self._in(self._source(op, name, definition.views))
        if seen and self.inner.bytes(self.keys[name]) <= self._bytes(seen):
            return seen
        first = next(one for one in leaves(step.target) if one in self.keys)
        if step.changes and name == first and not definition.mutates:
            return self._in(tuple(step.changes))
        return self._new(name)

    def _source(self, op: Operator, name: Name, slots: Mapping[str, str]) -> Name | None:
        """The input (or other output) whose memory the slots say that a result lies in."""
        for made, given in slots.items():
            sources = op.input(given) or op.output(given)
            for place, one in enumerate(op.output(made) if sources else ()):
                if one != EMPTY and key_of(op.block, one) == self.keys[name]:
                    return self.names.get(key_of(op.block, sources[min(place, len(sources) - 1)]))
        return None

    def _working(self, op: Operator) -> int:
        """Bytes that an operator holds while it runs, besides its variables."""
        total = 0.0
        for slot, times in facts_of(op.type).working.items():
            names = [name for name in op.input(slot) or op.output(slot) if name != EMPTY]
            size = sum(self.shapes.bytes(key_of(op.block, name)) for name in names)
            total += times * op.attrs.get("num_layers", 1) * size
        return int(total)

    def _block(self, step: Compound) -> None:
        """One round stands for all, but what each leaves behind is there as often as there are
        rounds. Where their number isn't known, unknown sizes count as those of all rounds
        together, and nothing in the round itself."""
        nested = nested_of(step.op) if step.op is not None else None
        before = self.inner, self.rounds, self.first, self.top
        self.top = self.top or step.op
        self.first = len(self.sizes)
        if step.op is not None and nested is not None and nested.stepped:
            self.rounds = self.shapes.rows(step.op.block, step.op.input(nested.stepped)[0])
        elif isinstance(step, While | For):
            self.inner = self.shapes.known_alone()
        for body in step.bodies:
            self.play(body)
        self.inner, self.rounds, self.first, self.top = before
        if isinstance(step, While) and isinstance(step.head, Name):
            self.held[step.head] = NOTHING  # all records are taken out again
