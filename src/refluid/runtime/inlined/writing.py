"""The steps of a plan with its operators written out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import torch

from refluid.analysis.placeholders import placeholder
from refluid.runtime.inlined.inliner import Inliner
from refluid.runtime.source import PlanSource
from refluid.runtime.steps import Bind, Call, Free, If, Load, Return, Step
from refluid.runtime.trees import FED, FED_LODS, Formula, Known, Name, called


def written(inliner: Inliner, start: Callable[..., Any], rest: Callable[..., Any]) -> PlanSource:
    """All steps, with each condition as early as it can be checked.

    Where one doesn't hold, the step returns what `start(F, C, L)` gives, as long as nothing has
    been computed, or `rest(number, variables)`, from that step of the plan on.
    """
    source, trace = inliner.source, inliner.trace
    at = {
        place: [condition for _, condition in group]
        for place, group in groupby(sorted(trace.conditions, key=_place), key=_place)
    }
    again = called(source.constant("start", start), FED, Known("C"), FED_LODS)
    going_on = source.constant("rest", rest)
    begins = next(place for place, one in enumerate(trace.items) if not _only_names(one))
    steps: list[Step] = []
    number = 0
    for place, item in enumerate(trace.items):
        while number + 1 < len(inliner.starts) and inliner.starts[number + 1] <= place:
            number += 1
        if place in at:
            left = again if place <= begins else called(going_on, number, Formula("locals()", ()))
            steps.append(If(_any_fails(at[place]), [Return(left)]))
        steps.append(item)
    needed = _without_placeholders(_needed(steps, trace.spare), inliner.namespace)
    for step in _freed(needed, trace.locals):
        source.add(step)
    return source


def with_placeholders(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of a step that was left, with the placeholders that it did without."""
    return {
        name: placeholder(torch.empty(one[0], dtype=one[1])) if _is_unread(one) else one
        for name, one in variables.items()
    }


def _is_unread(thing: Any) -> bool:
    return type(thing) is tuple and len(thing) == 2 and type(thing[0]) is torch.Size


def _without_placeholders(steps: Sequence[Step], known: Mapping[str, Any]) -> list[Step]:
    """Sizes that are known need no tensor: shape and type, for whoever goes on by operators."""
    kept: list[Step] = []
    read: set[Any] = set()
    for step in reversed(steps):
        if isinstance(step, Call) and known.get(step.function) is placeholder:
            (name,) = step.args
            if step.target == name and name not in read:
                told = Formula("{}.shape", (name,)), Formula("{}.dtype", (name,))
                step = Bind(name, told, op=step.op)
        read = (read - step.writes) | step.reads
        kept.append(step)
    return kept[::-1]


def _place(condition: tuple[int, Formula]) -> int:
    return condition[0]


def _any_fails(conditions: Sequence[Formula]) -> Formula:
    return Formula(f"not ({' and '.join(['{}'] * len(conditions))})", tuple(conditions))


def _only_names(step: Step) -> bool:
    """Whether all it does is to give variables their first values."""
    return isinstance(step, Load) or (isinstance(step, Bind) and step.target is not None)


def _needed(steps: Sequence[Step], spare: set[Step]) -> list[Step]:
    """Without the spare steps that make what nobody reads."""
    kept: list[Step] = []
    read: set[Any] = set()
    for step in reversed(steps):
        if step in spare and step.writes and not step.writes & read:
            continue
        read |= step.reads
        kept.append(step)
    return kept[::-1]


def _freed(steps: Sequence[Step], names: set[Name]) -> list[Step]:
    """With locals given up after their last use."""
    used = [(step.reads | step.writes) & names for step in steps]
    last = {name: number for number, found in enumerate(used) for name in found}
    given_up: list[Step] = []
    for number, step in enumerate(steps):
        given_up.append(step)
        dead = sorted(str(name) for name in used[number] if last[name] == number)
        if dead and not isinstance(step, Return | If):
            given_up.append(Free(tuple(map(Name, dead))))
    return given_up
