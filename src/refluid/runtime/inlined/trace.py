"""What the statements of a plan do, in order: calls of torch, and under which conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from refluid.core.offsets import Levels
from refluid.ir.operator import Operator
from refluid.kernels.holders import memory_of
from refluid.kernels.watching import Unseen
from refluid.runtime.inlined.lengths import AnySize, Length, Quotient, Unfollowed, number_of
from refluid.runtime.inlined.seen import SeenLevels, SeenTensor
from refluid.runtime.inlined.sequences import NUMBERS, TracedOffsets
from refluid.runtime.inlined.shapes import PURE, Sizes, all_alike, shapes_of
from refluid.runtime.source import PlanSource
from refluid.runtime.steps import Bind, Call, Step
from refluid.runtime.trees import Formula, Name, Tree, entry, leaves, mapped

# Functions whose result is a view of all that they are given, in the same order.
_VIEWS = frozenset({"view", "reshape", "expand"})
_CONSTANTS = (torch.dtype, torch.device, torch.memory_format, torch.layout, torch.Generator)


@dataclass
class _Statement:
    """Where a statement begins among the items and conditions; the memory of what it is given, and
    whether it wrote there by now; where the names that it binds were bound before."""

    op: Operator | None
    items: int
    conditions: int
    wrote: bool = False
    memory: set[int] = field(default_factory=set)
    bound: dict[Name, int | None] = field(default_factory=dict)
    seen: dict[int, tuple[Tensor, SeenTensor]] = field(default_factory=dict)


class Trace:
    """Calls and conditions of one step, statement by statement.

    A condition is checked as early as it can be: `conditions` says before which item. `spare` are
    those items that do nothing but set locals of the trace. source: names its constants.
    """

    def __init__(self, source: PlanSource) -> None:
        self.items: list[Step] = []
        self.conditions: list[tuple[int, Formula]] = []
        self.spare: set[Step] = set()
        self.locals: set[Name] = set()
        self._source = source
        self._met = set[tuple[int, Formula]]()
        self._bound: dict[Name, int] = {}
        self._now = _Statement(None, 0, 0)

    # -- statements ------------------------------------------------------------------

    def begin(self, op: Operator | None) -> None:
        """Another statement, of which nothing is known but what it is given."""
        self._now = _Statement(op, len(self.items), len(self.conditions))

    def drop(self) -> None:
        """Forgets what the statement did."""
        del self.items[self._now.items :]
        self._met.difference_update(self.conditions[self._now.conditions :])
        del self.conditions[self._now.conditions :]
        for name, place in self._now.bound.items():
            if place is None:
                del self._bound[name]
            else:
                self._bound[name] = place

    def add(self, step: Step) -> None:
        """A step of the plan, as it is."""
        self.items.append(step)

    def bind(self, names: Iterable[Name]) -> None:
        """The last items gave these variables their values."""
        for name in names:
            self._now.bound.setdefault(name, self._bound.get(name))
            self._bound[name] = len(self.items)

    def take(self, tensor: Tensor, seen: SeenTensor) -> None:
        """The statement is given a tensor."""
        for condition in seen.conditions:
            self.met(condition)
        self._now.seen.setdefault(id(tensor), (tensor, seen))
        self._now.memory.add(memory_of(tensor))

    def met(self, condition: Formula) -> None:
        """Notes a condition that holds."""
        names = (leaf for leaf in leaves(condition) if type(leaf) is Name)
        place = max((self._bound.get(name, 0) for name in names), default=0)
        if place > self._now.items and self._now.wrote:
            raise Unfollowed("decides by sizes after it wrote to something")
        if (place, condition) not in self._met:
            self._met.add((place, condition))
            self.conditions.append((place, condition))

    def rename(self, names: Mapping[Name, Name]) -> None:
        """Gives locals of the statement other names."""
        change = lambda leaf: names.get(leaf, leaf) if type(leaf) is Name else leaf  # noqa: E731
        for place in range(self._now.items, len(self.items)):
            was = self.items[place]
            self.items[place] = now = was.renamed(change)
            if was in self.spare and now.writes.isdisjoint(names.values()):
                self.spare.add(now)
        self._met.difference_update(self.conditions[self._now.conditions :])
        for place in range(self._now.conditions, len(self.conditions)):
            self.conditions[place] = mapped(self.conditions[place], change)
        self._met.update(self.conditions[self._now.conditions :])

    # -- variables of the plan --------------------------------------------------------

    def root(self, tensor: Tensor, name: Name, declared: Sequence[int] | None) -> SeenTensor:
        """A tensor that comes as it is: sizes are what it has when the step runs, but those that
        the program declares and it has. Conditions are for whoever uses it.
        """
        if declared is None or len(declared) != tensor.dim():
            declared = [-1] * tensor.dim()
        held = self._hold("s", Formula("{}.shape", (name,)))
        kind = self._source.constant("kind", tensor.dtype)
        conditions = [
            Formula("{}.dtype is {}", (name, kind)),
            Formula("len({}) == {}", (held, tensor.dim())),
        ]
        sizes: list[AnySize] = []
        for place, (size, told) in enumerate(zip(tensor.shape, declared, strict=True)):
            if told == size:
                conditions.append(Formula("{} == {}", (entry(held, place), size)))
                sizes.append(size)
            else:
                sizes.append(Length(size, entry(held, place), self.met))
        return SeenTensor(name, tuple(sizes), tuple(conditions))

    def levels(self, levels: Levels, name: Name) -> SeenLevels:
        """A LoD that comes as it is."""
        found = []
        for place, real in enumerate(levels):
            tree = entry(name, place)
            sizes = {}
            for number in NUMBERS:
                held = self._hold("n", Formula(f"{{}}.{number}", (tree,)))
                sizes[number] = Length(getattr(real, number), held, self.met)
            found.append(TracedOffsets(real, tree, sizes, self.met, self.derived))
        return SeenLevels(tuple(found), (Formula("len({}) == {}", (name, len(levels))),))

    # -- what a statement does ----------------------------------------------------------

    def seen(self, tensor: Tensor) -> SeenTensor:
        """What is known of a tensor. Raises Unfollowed for one of unknown origin."""
        found = self._now.seen.get(id(tensor))
        if found is None:
            raise Unfollowed("uses a tensor that no call made")
        return found[1]

    def sizes_of(self, tensor: Tensor) -> Sizes:
        """The sizes of a tensor."""
        return self.seen(tensor).sizes

    def spelled(self, thing: Any) -> Tree:
        """How something is given to a function. Raises Unfollowed for what can't be written."""
        if isinstance(thing, Tensor):
            return self.seen(thing).name
        if isinstance(thing, Length | Quotient):
            return thing.tree
        if thing is None or isinstance(thing, bool | int | float | str):
            return thing
        if isinstance(thing, slice):
            ends = tuple(map(self.spelled, (thing.start, thing.stop, thing.step)))
            return Formula("slice({}, {}, {})", ends)
        if isinstance(thing, list):
            return [self.spelled(one) for one in thing]
        if isinstance(thing, tuple | range):
            return tuple(self.spelled(one) for one in thing)
        if thing is Ellipsis:
            return Formula("...", ())
        if isinstance(thing, _CONSTANTS):
            return self._source.constant("c", thing)
        raise Unfollowed(f"gives torch a {type(thing).__name__}")

    def called(
        self,
        function: Callable[..., Any],
        name: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        result: Any,
    ) -> None:
        """Notes a call of torch's function of that name, and what it returned."""
        known = self._source.constant(f"{name.strip('_').partition('.')[0]}_of_torch", function)
        given, named = self.spelled(args), {key: self.spelled(one) for key, one in kwargs.items()}
        rule = "" if isinstance(function, FunctionType) else name  # rules are of torch's own
        target: Tree = None
        if isinstance(result, tuple | list):
            sizes = shapes_of(rule, self.sizes_of, args, kwargs)
            target = tuple([self._made(one, sizes) for one in result])
        elif isinstance(result, Tensor) and id(result) not in self._now.seen:
            sizes = shapes_of(rule, self.sizes_of, args, kwargs)
            if rule in _VIEWS and sizes is not None and all_alike(sizes, self.sizes_of(args[0])):
                self._now.seen[id(result)] = result, self.seen(args[0])
                return
            target = self._made(result, sizes)
        elif not (result is None or isinstance(result, Tensor)):
            raise Unfollowed(f"gets a {type(result).__name__} of torch")
        pure = rule in PURE and kwargs.get("out") is None
        self._append(Call(target, known, given, named, op=self._now.op), spare=pure)
        self._now.wrote |= not pure and self._writes(name, args, kwargs)

    def _writes(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether a function that isn't pure may write to what the statement is given: one whose
        name ends in `_` writes to its first argument, others to any."""
        into: Any = kwargs.get("out")
        if into is None:
            into = args[0] if name.endswith("_") and not name.startswith("_") else (args, kwargs)
        written = (one for one in leaves(into) if isinstance(one, Tensor))
        return any(memory_of(one) in self._now.memory for one in written)

    def derived(
        self,
        level: TracedOffsets,
        make: Callable[..., Any],
        given: tuple[Any, ...],
        device: torch.device,
    ) -> Tensor:
        """Notes what `Offsets.once` gives."""
        with Unseen():
            found = level.made(make, given, device)
            if id(found) not in self._now.seen:
                known = self._source.constant(make.__name__.strip("_"), make)
                parts = (level.tree, known, *map(self.spelled, given), self.spelled(device))
                holes = ", ".join(["{}"] * (len(parts) - 2))
                made = Formula(f"{{}}.once({holes}, device={{}})", parts)
                self._append(Bind(self._made(found, None), made, op=self._now.op), spare=True)
        return found

    def asked(self, tensor: Tensor, form: str, value: int) -> Length:
        """A number that a tensor tells when the step runs."""
        return Length(value, Formula(form, (self.spelled(tensor),)), self.met)

    # -- locals -------------------------------------------------------------------------

    def _new(self, letter: str) -> Name:
        name = Name(f"x{len(self.locals)}{letter}")
        self.locals.add(name)
        return name

    def _made(self, tensor: Any, sizes: Sizes | None) -> Name:
        """A name for a new tensor; its shape is asked for where no rule tells its sizes."""
        if not isinstance(tensor, Tensor) or id(tensor) in self._now.seen:
            raise Unfollowed("gets something else than new tensors")
        name = self._new("")
        if sizes is None:
            held = Name(f"{name}s")
            sizes = tuple(
                Length(size, entry(held, place), self.met)
                for place, size in enumerate(tensor.shape)
            )
        elif tuple(map(number_of, sizes)) != tuple(tensor.shape):
            raise AssertionError(f"a rule gives the shape {sizes} for {tuple(tensor.shape)}")
        self._now.seen[id(tensor)] = tensor, SeenTensor(name, sizes)
        return name

    def _append(self, step: Step, *, spare: bool) -> None:
        """A step that makes tensors, and their shapes for whom these are asked."""
        self.items.append(step)
        if spare:
            self.spare.add(step)
        made = [name for name in step.writes if isinstance(name, Name)]
        self.bind(made)
        for name in made:
            held = Name(f"{name}s")
            self.locals.add(held)
            self._hold_as(held, Formula("{}.shape", (name,)))

    def _hold(self, letter: str, value: Tree) -> Name:
        held = self._new(letter)
        self._hold_as(held, value)
        return held

    def _hold_as(self, held: Name, value: Tree) -> None:
        step = Bind(held, value, op=self._now.op)
        self.items.append(step)
        self.spare.add(step)
        self.bind([held])
