"""Puts kernels together that lines and lookups lie between, so that one compiled function has them.

Steps change places only where neither reads what the other makes, or touches memory that the other
may write. Lookups are compiled where ids can be compared with the table's height beforehand.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from collections.abc import Set as AbstractSet

import torch

from refluid.ops.effects import OUTSIDE
from refluid.runtime.recorded.compile import LONG, LOOKUP, Lookups, is_left
from refluid.runtime.recorded.graph import Kernel, Part, Value, places
from refluid.runtime.steps import Call

_WHOLE = frozenset({torch.int64, torch.int32})


class _Touched:
    """What some steps read, make and may write."""

    def __init__(self, steps: Iterable[Part] = ()) -> None:
        self.uses, self.makes = set[Value](), set[Value]()
        self.touches, self.writes = set[int](), set[int]()
        for step in steps:
            self.add(step)

    def add(self, step: Part) -> None:
        self.uses.update(step.uses)
        self.makes.update(one for one in step.outs if one is not None)
        self.touches |= places((*step.uses, *step.outs))
        self.writes |= _writes(step)

    def commutes(self, other: _Touched) -> bool:
        """Whether these and those give the same in either order."""
        if self.writes & other.touches or other.writes & self.touches:
            return False
        if self.makes & (other.uses | other.makes):
            return False
        return not other.makes & self.uses


def gathered(steps: Sequence[Part], lookups: Container[Part] = ()) -> list[Part]:
    """The steps in another order, with longer runs of kernels that can be compiled.

    A lookup goes before the kernels that it follows, a kernel before the steps between it and the
    run before them. Steps that can't be compiled keep their order; those that do more than change
    and give tensors (print, exchange, draw, run a loop) are passed by none.

    lookups: those that can be compiled.
    """
    made, run, between = list[Part](), list[Part](), list[Part]()
    run_has, between_has = _Touched(), _Touched()
    for step in steps:
        has = _Touched([step])
        if not is_left(step, lookups):
            if between and not (_joins(run, between) and has.commutes(between_has)):
                made += run + between
                run, between, run_has, between_has = [], [], _Touched(), _Touched()
            run.append(step)
            run_has.add(step)
        elif run and not between and _is_lookup(step) and has.commutes(run_has):
            made.append(step)
        else:
            between.append(step)
            between_has.add(step)
    return made + run + between


def checked_lookups(steps: Sequence[Part]) -> Lookups:
    """Lookups on the CPU whose ids are there before any kernel that can be compiled, and stay.

    Each with the value that has all of its ids, and only those, in whatever shape.
    """
    written = {place for step in steps for place in _writes(step)}
    given = _given(steps)
    found = dict[Part, Value]()
    for step in steps:
        if isinstance(step, Kernel) and step.name == LOOKUP:
            table, ids = step.args[:2]
            known = ids if ids.constant is not None else given.get(ids.storage)
            if known and known.storage not in written and _are_checked(table, ids, known):
                found[step] = known
    return found


def _are_checked(table: Value, ids: Value, known: Value) -> bool:
    """Whether these ids are just those that `known` has, and whoever has them can be asked."""
    at, its, all_of_them = table.layout, ids.layout, known.layout
    if at is None or its is None or all_of_them is None or at.device.type != "cpu":
        return False
    if its.dtype not in _WHOLE or its.dtype is not all_of_them.dtype:
        return False
    alike = its.shape.numel() == all_of_them.shape.numel()
    return alike and its.is_dense and all_of_them.is_dense


def _given(steps: Sequence[Part]) -> dict[int | None, Value]:
    """By memory that steps make which can't be compiled, the value that they give."""
    seen, found = set[int](), dict[int | None, Value]()
    for step in steps:
        for value in step.outs:
            if value is not None and value.storage is not None and value.storage not in seen:
                seen.add(value.storage)
                if is_left(step):
                    found[value.storage] = value
    return found


def _joins(run: Sequence[Part], between: Sequence[Part]) -> bool:
    """Whether kernels may pass what is between, and there is a run to join that stays whole."""
    return 0 < len(run) < LONG and all(map(_may_be_passed, between))


def _is_lookup(step: Part) -> bool:
    return isinstance(step, Kernel) and step.name == LOOKUP


def _may_be_passed(step: Part) -> bool:
    """Whether nothing is known to happen in it but to the tensors that it is given and gives."""
    if isinstance(step, Kernel):
        return True
    acts_outside = type(step.step) is not Call or step.step.effects & OUTSIDE
    return not (acts_outside or step.writes_anything)


def _writes(step: Part) -> AbstractSet[int]:
    """The memory that a step may write."""
    if isinstance(step, Kernel):
        return step.writes
    return places(step.uses) if step.may_write else frozenset()
