"""Runs a plan step by step, and finds for each operator which calls of torch can stand for it.

An operator's body runs twice: once to see what it does, on sizes that note what is done with them,
and once for the step. Only what gives the same bits both times is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.analysis.placeholders import placeholder
from refluid.core.offsets import Offsets
from refluid.core.whole_threads import interrupts_later
from refluid.ops.by_loops import following
from refluid.ops.effects import LASTING
from refluid.ops.registry import find
from refluid.runtime.code import PreparedStep
from refluid.runtime.inlined.calls import TracedCalls
from refluid.runtime.inlined.lengths import Unfollowed
from refluid.runtime.inlined.seen import SeenLevels, SeenTensor, elements
from refluid.runtime.inlined.sequences import TracedOffsets
from refluid.runtime.inlined.trace import Trace
from refluid.runtime.recorded.settled import calls_plainly, is_pure, overwrites
from refluid.runtime.source import PlanSource
from refluid.runtime.steps import Bind, Call, Free, Load, Return, Step
from refluid.runtime.trees import DEVICE, IGNORED, RANDOM, Formula, Known, Name, Tree, mapped

# What is computed of more elements takes so long that calls don't matter.
LARGE = 2**20
# What is known of a variable; results with their values and what is known; sizes as declared.
Told = SeenTensor | SeenLevels | None
Results = dict[Name, tuple[Any, Told]]
DeclaredSizes = Callable[[Name], Sequence[int] | None]


class Inliner:
    """Executes the steps of a plan for real, and traces each statement.

    starts: for each step of the plan its first item in the trace. inlined: how many operators are
    written out; refused: why others aren't, and how many.
    """

    def __init__(
        self, constants: Mapping[str, Any], body: Sequence[PreparedStep], declared: DeclaredSizes
    ) -> None:
        self.body, self._declared = body, declared
        self.namespace: dict[str, Any] = dict(constants)
        self.source = PlanSource(constants)
        self.trace = Trace(self.source)
        self.starts: list[int] = []
        self.inlined = 0
        self.refused: Counter[str] = Counter()
        self._known: dict[Name, SeenTensor | SeenLevels] = {}

    def run(self, feeds: Any, cells: Any, levels: Any) -> Any:
        """Runs the step, and returns what it returns."""
        self.namespace.update(F=feeds, C=cells, L=levels)
        result = None
        for one in self.body:
            self.starts.append(len(self.trace.items))
            self.trace.begin(one.step.op)
            if isinstance(one.step, Return):
                result = eval(one.code, self.namespace)
                self.trace.add(one.step)
            elif isinstance(one.step, Free):
                for name in one.step.names:
                    del self.namespace[name]
                    self._known.pop(name, None)
                self.trace.add(one.step)
            else:
                self._statement(one)
        return result

    def _statement(self, one: PreparedStep) -> None:
        step, found = one.step, self._found(one.step)
        before = {name: self.namespace.get(name) for name in one.stores}
        exec(one.code, self.namespace)
        if found is not None and not self._gives(found):
            self._refuse(step, "gives something else")
            found = None
        if found is None:
            self.trace.add(step)
            self._note(one, before)
        else:
            self.inlined += 1
            self.trace.bind(found)
            self._know({name: known for name, (_, known) in found.items()})

    def _found(self, step: Step) -> Results | None:
        """What a statement gives as it was traced; None where that can't stand for it."""
        if not isinstance(step, Call) or not self._may_be_inlined(step):
            return None
        try:
            return self._traced(step)
        except Unfollowed as reason:
            self._refuse(step, str(reason))
        except Exception as error:  # a body that can't do with such sizes
            self._refuse(step, f"{type(error).__name__}: {error}")
        return None

    def _gives(self, found: Results) -> bool:
        """Whether the statement gave the same."""
        return all(_same(made, self.namespace.get(name)) for name, (made, _) in found.items())

    def _refuse(self, step: Step, reason: str) -> None:
        self.trace.drop()
        self.refused[f"{step.op.type if step.op else ''} {reason}"] += 1

    def _may_be_inlined(self, step: Call) -> bool:
        op = step.op
        if op is None or not is_pure(op) or overwrites(op) or step.effects & LASTING:
            return False
        definition = find(op.type)
        reads = definition is None or definition.reads
        return calls_plainly(step, self.namespace) and not reads

    # -- what is known -----------------------------------------------------------------

    def _know(self, known: Mapping[Name, Told]) -> None:
        for name, one in known.items():
            self._known.pop(name, None)
            if one is not None:
                self._known[name] = one

    def _note(self, one: PreparedStep, before: Mapping[Name, Any]) -> None:
        """What is known of the values that a step set which stays as it is."""
        known = {name: self._result_of(one.step, name, before) for name in one.stores}
        self.trace.bind(one.stores)
        self._know(known)

    def _result_of(self, step: Step, name: Name, before: Mapping[Name, Any]) -> Told:
        thing = self.namespace.get(name)
        if isinstance(thing, Tensor):
            kept = thing is before.get(name) and overwrites(step.op)
            if kept or self._is_placeholder(step):
                return self._known.get(name)  # of the same shape as it was
            if isinstance(step, Load):
                return SeenTensor(
                    name, tuple(thing.shape)
                )  # what fits a plan has variables of a shape
            return self.trace.root(thing, name, self._declared(name))
        if isinstance(thing, tuple) and all(isinstance(x, Offsets) for x in thing):
            return self.trace.levels(thing, name)
        return None

    def _is_placeholder(self, step: Step) -> bool:
        return isinstance(step, Call) and self.namespace[step.function] is placeholder

    # -- what a statement does -----------------------------------------------------------

    def _traced(self, step: Call) -> Results:
        """Traces a statement: each of its results, and what is known of it. Raises Unfollowed."""
        reads = {one for one in step.reads if isinstance(one, Name)}
        tensors = [one for name in reads if isinstance(one := self._known.get(name), SeenTensor)]
        if elements(tensors) > LARGE:
            raise Unfollowed("is large")
        stand_ins = {name: self._stand_in(name, step) for name in reads}
        random = _Random(self.namespace.get(RANDOM))

        known: dict[Any, Any] = {DEVICE: self.namespace.get(DEVICE), RANDOM: random}

        def leaf(one: Any) -> Any:
            if type(one) is Name:
                return stand_ins[one]
            if type(one) is Known and one not in known:
                raise Unfollowed(f"is given {one}")
            return known[one] if type(one) is Known else one

        given = step.args, dict(step.kwargs)
        if any(isinstance(one, Formula) for one in (*step.args, *step.kwargs.values())):
            raise Unfollowed("is given an expression")
        args, kwargs = mapped(given, leaf)
        calls = TracedCalls(self.trace)
        with interrupts_later(), following(_refuses), random, calls:  # as modes could stay in force
            results = self.namespace[step.function](*args, **kwargs)
        if calls.refused:
            raise Unfollowed(calls.refused)
        return self._results(step, results)

    def _stand_in(self, name: Name, step: Step) -> Any:
        thing, known = self.namespace[name], self._known.get(name)
        if isinstance(known, SeenTensor):
            copy = thing.clone() if name in step.changes else thing
            self.trace.take(copy, known)
            return copy
        if isinstance(known, SeenLevels):
            for condition in known.conditions:
                self.trace.met(condition)
            return known.levels
        if thing is None:
            return None
        raise Unfollowed(f"is given a {type(thing).__name__}")

    def _results(self, step: Call, results: Any) -> Results:
        found: Results = {}
        names: dict[Name, Name] = {}
        for target, result in _pairs(step.target, results):
            known, value = self._told(target, result)
            if value in self.trace.locals and value not in names and target not in step.reads:
                names[value] = target
            else:
                self.trace.add(Bind(target, value, op=step.op))
            found[target] = result, known
        self.trace.rename(names)
        return found

    def _told(self, target: Name, result: Any) -> tuple[Told, Tree]:
        """What is known of a result, and how it is written."""
        if isinstance(result, Tensor):
            seen = self.trace.seen(result)
            return SeenTensor(target, seen.sizes), seen.name
        if result is None:
            return None, None
        if isinstance(result, tuple) and all(isinstance(one, TracedOffsets) for one in result):
            levels = tuple(one.found_by(_entry(target, at)) for at, one in enumerate(result))
            return SeenLevels(levels), tuple(one.tree for one in result)
        raise Unfollowed(f"makes a {type(result).__name__}")


def _refuses() -> None:
    raise Unfollowed("does something else in later calls")


def _entry(name: Name, place: int) -> Formula:
    return Formula("{}[{}]", (name, place))


def _pairs(target: Tree, result: Any) -> Iterator[tuple[Name, Any]]:
    """Each variable that is set, and its value."""
    if type(target) is Name:
        if target != IGNORED:
            yield target, result
    elif isinstance(target, list | tuple) and isinstance(result, list | tuple):
        if len(target) != len(result):
            raise Unfollowed("gives more results than are taken")
        for one, value in zip(target, result, strict=True):
            yield from _pairs(one, value)
    else:
        raise Unfollowed(f"makes a {type(result).__name__}")


class _Random:
    """The plan's source of random numbers, which afterwards is as it was before."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._drawn: list[tuple[torch.Generator, Tensor]] = []

    def __call__(self, seed: int) -> torch.Generator:
        found = None if seed else self._real(seed)
        if not isinstance(found, torch.Generator):
            raise Unfollowed("draws the same random numbers in every step")
        self._drawn.append((found, found.get_state()))
        return found

    def __enter__(self) -> None:
        """Nothing is drawn yet."""

    def __exit__(self, *error: object) -> None:
        for generator, state in reversed(self._drawn):
            generator.set_state(state)


def _same(traced: Any, real: Any) -> bool:
    """Whether a statement as it was traced gives what the statement gave."""
    if isinstance(traced, Tensor):
        return isinstance(real, Tensor) and _are_same(traced, real)
    if isinstance(traced, tuple) and isinstance(real, tuple):
        return len(traced) == len(real) and all(
            one.real == other for one, other in zip(traced, real, strict=True)
        )
    return traced is None and real is None


def _are_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are laid out alike and have the same bits."""
    if one.dtype != other.dtype or one.shape != other.shape or one.stride() != other.stride():
        return False
    alike = torch.contiguous_format
    bits = (each.clone(memory_format=alike).view(-1).view(torch.uint8) for each in (one, other))
    return torch.equal(*bits)
