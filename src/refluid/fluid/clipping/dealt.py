"""Where each process has only some of the parameters: norms and checks over those of all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.fluid import layers
from refluid.ir.variable import Variable

_dealt = False


@contextmanager
def dealt_parameters() -> Iterator[None]:
    """Within the block optimizers append updates of some parameters; other processes have others.

    Those that exchange something are the group by which the program then runs.
    """
    global _dealt
    former, _dealt = _dealt, True
    try:
        yield
    finally:
        _dealt = former


def over_all(value: Variable, reduction: str = "sum") -> Variable:
    """The `sum` or `max` of a value over all processes, where parameters are dealt among them.

    Of truth values `max` is whether one is true.
    """
    if not _dealt:
        return value
    if value.dtype == VarType.BOOL:
        return layers.cast(over_all(layers.cast(value, "int32"), reduction), "bool")
    found: Variable = op(f"c_allreduce_{reduction}", {"X": value}, {"use_calc_stream": True})
    return found
