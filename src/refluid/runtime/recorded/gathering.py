"""Puts kernels together that lines and lookups lie between, so that one compiled function has them.

Steps change places only where neither reads what the other makes, or touches memory that the other
may write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refluid.ops.effects import OUTSIDE
from refluid.runtime.recorded.compile import LONG, is_left
from refluid.runtime.recorded.graph import Kernel, Line, Part, Value, places
from refluid.runtime.steps import Call

# Reads of tables need little, and are often what a run begins with.
_LOOKUP = "embedding"


class _Touched:
    """What some steps read, make and may write."""

    def __init__(self, steps: Iterable[Part] = ()) -> None:
        self.uses, self.makes = set[Value](), set[Value]()
        self.touches, self.writes = set[int](), set[int]()
        for step in steps:
            self.add(step)

    def add(self, step: Part) -> None:
        given = places(step.uses)
        self.uses.update(step.uses)
        self.makes.update(one for one in step.outs if one is not None)
        self.touches |= given | places(step.outs)
        if isinstance(step, Kernel):
            self.writes |= step.writes
        elif _may_write(step):
            self.writes |= given

    def commutes(self, other: _Touched) -> bool:
        """Whether these and those give the same in either order."""
        if self.writes & other.touches or other.writes & self.touches:
            return False
        if self.makes & (other.uses | other.makes):
            return False
        return not other.makes & self.uses


def gathered(steps: Sequence[Part]) -> list[Part]:
    """The steps in another order, with longer runs of kernels that can be compiled.

    A lookup goes before the kernels that it follows, a kernel before the steps between it and the
    run before them. Steps that can't be compiled keep their order; those that do more than change
    and give tensors (print, exchange, draw, run a loop) are passed by none.
    """
    made, run, between = list[Part](), list[Part](), list[Part]()
    run_has, between_has = _Touched(), _Touched()
    for step in steps:
        has = _Touched([step])
        if not is_left(step):
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


def _joins(run: Sequence[Part], between: Sequence[Part]) -> bool:
    """Whether kernels may pass what is between, and there is a run to join that stays whole."""
    return 0 < len(run) < LONG and all(map(_may_be_passed, between))


def _is_lookup(step: Part) -> bool:
    return isinstance(step, Kernel) and step.func.overloadpacket.__name__ == _LOOKUP


def _may_be_passed(step: Part) -> bool:
    """Whether nothing is known to happen in it but to the tensors that it is given and gives."""
    if isinstance(step, Kernel):
        return True
    acts_outside = type(step.step) is not Call or step.step.effects & OUTSIDE
    return not (acts_outside or step.writes_anything)


def _may_write(line: Line) -> bool:
    """Whether it might write what it is given: only calls without effects say that they don't."""
    step = line.step
    return type(step) is not Call or bool(step.effects or step.overwrites)
