"""Switch: of several cases, the first whose condition holds is run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any

from refluid.core.dtypes import VarType
from refluid.fluid import layers
from refluid.ir.block import Block
from refluid.ir.defaults import default_main_program
from refluid.ir.variable import Variable


class Switch:
    """Runs the first case that holds, else the default:

        with layers.Switch() as switch:
            with switch.case(step < limit):
                layers.assign(small, rate)
            with switch.default():
                layers.assign(large, rate)

    Conditions are bool variables of shape (1,). What a case writes is seen outside where the
    variable was made before the case.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._inside = False
        self._none_so_far: Variable | None = None

    def __enter__(self) -> Switch:
        self._inside = True
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self._inside = False

    def case(self, condition: Variable) -> AbstractContextManager[None]:
        """A block that runs if `condition` holds and that of no case before.

        Raises ValueError outside of `with`, TypeError for a condition that is no bool variable.
        """
        self._require_inside("case")
        if not isinstance(condition, Variable) or condition.dtype != VarType.BOOL:
            raise TypeError(f"Switch.case takes a bool variable as condition, not {condition!r}")
        former = self._none_so_far
        negated = layers.logical_not(x=condition)
        if former is not None:
            negated = layers.logical_and(x=former, y=negated)
            condition = layers.logical_and(x=former, y=condition)
        self._none_so_far = negated
        return conditional_block(condition)

    def default(self) -> AbstractContextManager[None]:
        """A block that runs if no case did. ValueError before the first case."""
        self._require_inside("default")
        if self._none_so_far is None:
            raise ValueError("Switch.default needs a case before it")
        return conditional_block(self._none_so_far)

    def _require_inside(self, method: str) -> None:
        if not self._inside:
            raise ValueError(f"Switch.{method} is called inside `with Switch() as switch:`")


@contextmanager
def conditional_block(condition: Variable) -> Iterator[None]:
    """Layers called within the block run only if `condition`, of shape (1,), holds."""
    program = default_main_program()
    outer = program.current_block()
    inner = program.create_block()
    try:
        yield
    finally:
        program.rollback()
    read, written = _crossing(inner)
    outer.append_op(
        type="conditional_block",
        inputs={"Cond": [condition], "Input": read},
        outputs={
            "Out": written,
            "Scope": [outer.create_var(type=VarType.STEP_SCOPES)],
        },
        attrs={"sub_block": inner, "is_scalar_condition": True},
    )


def _crossing(inner: Block) -> tuple[list[Any], list[Any]]:
    """Names of outer variables that a block reads (before it writes them) and writes."""
    read: dict[str, None] = {}
    written: dict[str, None] = {}
    for op in inner.ops:
        for name in op.input_arg_names:
            if name not in inner.vars and name not in written:
                read[name] = None
        for name in op.output_arg_names:
            if name not in inner.vars:
                written[name] = None
    return list(read), list(written)
