"""A plan as values: steps in order, each of which says what it reads, writes and overwrites.

`trees` has what they are given. `printing` makes Python of steps; nobody reads that text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from operator import or_
from typing import Any, ClassVar

from refluid.ir.operator import Operator
from refluid.ops.effects import Effect
from refluid.runtime.trees import (
    IGNORED,
    CellName,
    Known,
    Name,
    Reference,
    Tree,
    leaves,
    mapped,
    references,
)


@dataclass(eq=False)
class Step:
    """Something that a plan does.

    op: the operator that it belongs to. changes: variables whose memory it overwrites. acts: what
    else it does besides its results.
    """

    gives: ClassVar[Sequence[str]] = ()
    takes: ClassVar[Sequence[str]] = ()

    op: Operator | None = field(default=None, kw_only=True)
    changes: frozenset[Name] = field(default=frozenset(), kw_only=True)
    acts: Effect = field(default=Effect.NONE, kw_only=True)

    @property
    def targets(self) -> list[Tree]:
        """What it sets."""
        return [getattr(self, name) for name in self.gives]

    @property
    def values(self) -> list[Tree]:
        """What it is given."""
        return [getattr(self, name) for name in self.takes]

    @property
    def reads(self) -> set[Reference]:
        """Variables and cells whose values it takes."""
        return references(self.values)

    @property
    def writes(self) -> set[Reference]:
        """Variables and cells to which it gives a value, or takes theirs away."""
        return references(self.targets)

    @property
    def overwrites(self) -> set[Reference]:
        """Variables whose memory it changes."""
        return set(self.changes)

    @property
    def effects(self) -> Effect:
        """What it does besides its results; steps of one effect keep their order."""
        return self.acts

    @property
    def known(self) -> set[Known]:
        """The constants that it uses."""
        return {leaf for leaf in leaves(self.values) if type(leaf) is Known}

    def renamed(
        self, taken: Callable[[Any], Any], given: Callable[[Any], Any] | None = None
    ) -> Step:
        """The step with other leaves in what it takes and in what it sets."""
        changed = {name: mapped(getattr(self, name), taken) for name in self.takes}
        changed |= {name: mapped(getattr(self, name), given or taken) for name in self.gives}
        overwritten = references([taken(name) for name in self.changes])
        changed["changes"] = frozenset(one for one in overwritten if isinstance(one, Name))
        return replace(self, **changed)


@dataclass(eq=False)
class Bind(Step):
    """`target = value`; without a target what is done alone."""

    gives, takes = ("target",), ("value",)

    target: Tree
    value: Tree


@dataclass(eq=False)
class Call(Step):
    """`target = function(*args, **kwargs)`."""

    gives, takes = ("target",), ("function", "args", "kwargs")

    target: Tree
    function: Known
    args: tuple[Tree, ...] = ()
    kwargs: Mapping[str, Tree] = field(default_factory=dict)


@dataclass(eq=False)
class ExchangeStart(Call):
    """`(results, work) = function(...)`: the results are there when `work` is done."""


@dataclass(eq=False)
class ExchangeWait(Step):
    """`work.wait()`; `changes` are the results that the exchange fills."""

    takes = ("work",)

    work: Name


@dataclass(eq=False)
class Load(Step):
    """Takes the value of a persistable variable from the scope."""

    gives, takes = ("target",), ("cell",)

    target: Name
    cell: CellName


@dataclass(eq=False)
class Store(Step):
    """Gives the scope a persistable variable's value."""

    gives, takes = ("cell",), ("value",)

    cell: CellName
    value: Tree


@dataclass(eq=False)
class Free(Step):
    """Gives variables up: their memory is free, or waits in `garbage` with that of others."""

    gives, takes = ("names",), ("garbage",)

    names: tuple[Name, ...]
    garbage: Name | None = None

    @property
    def reads(self) -> set[Reference]:
        return references(self.garbage, self.names) if self.garbage else set()


@dataclass(eq=False)
class Clear(Step):
    """Variables that have no value from now on."""

    gives = ("names",)

    names: tuple[Name, ...]


@dataclass(eq=False)
class Return(Step):
    """The results of the plan."""

    takes = ("value",)

    value: Tree


@dataclass(eq=False)
class Pause(Step):
    """`target = yield value`: hands results out, and goes on with what it is given for them."""

    gives, takes = ("target",), ("value",)

    target: Tree
    value: Tree


@dataclass(eq=False)
class Compound(Step):
    """A step with steps inside. It may overwrite all that it sees."""

    takes: ClassVar[Sequence[str]] = ("head",)

    head: Tree
    body: list[Step] = field(default_factory=list)

    @property
    def bodies(self) -> list[list[Step]]:
        """The lists of steps inside."""
        return [self.body]

    @property
    def inner(self) -> Iterator[Step]:
        """The steps inside."""
        return (step for body in self.bodies for step in body)

    @property
    def reads(self) -> set[Reference]:
        return references(self.values).union(*(step.reads for step in self.inner))

    @property
    def writes(self) -> set[Reference]:
        return references(self.targets).union(*(step.writes for step in self.inner))

    @property
    def overwrites(self) -> set[Reference]:
        return self.reads | self.writes

    @property
    def effects(self) -> Effect:
        return reduce(or_, (step.effects for step in self.inner), self.acts)

    @property
    def known(self) -> set[Known]:
        return super().known.union(*(step.known for step in self.inner))

    def renamed(
        self, taken: Callable[[Any], Any], given: Callable[[Any], Any] | None = None
    ) -> Step:
        changed = super().renamed(taken, given)
        for one in fields(self):
            steps = getattr(self, one.name)
            if isinstance(steps, list) and steps and isinstance(steps[0], Step):
                setattr(changed, one.name, [step.renamed(taken, given) for step in steps])
        return changed


@dataclass(eq=False)
class If(Compound):
    """Steps for when the head holds, and for when it doesn't."""

    otherwise: list[Step] = field(default_factory=list)

    @property
    def bodies(self) -> list[list[Step]]:
        return [self.body, self.otherwise]


@dataclass(eq=False)
class While(Compound):
    """Steps that are repeated while the head holds."""


@dataclass(eq=False)
class For(Compound):
    """Steps for each of the values of the head."""

    gives = ("target",)

    target: Name = IGNORED


@dataclass(eq=False)
class Function(Compound):
    """Steps that are run when somebody calls them; `head` is the function's name."""

    gives, takes = ("head",), ()


def all_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, and those inside them."""
    for step in steps:
        yield step
        if isinstance(step, Compound):
            yield from all_steps(step.inner)
