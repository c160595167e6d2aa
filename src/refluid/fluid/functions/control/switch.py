"""Switch: of several cases, the first whose condition holds is run."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

from refluid.build import check_variables
from refluid.core.dtypes import VarType
from refluid.fluid.functions.control.conditional import ConditionalBlock
from refluid.fluid.functions.math.elementwise import logical_and, logical_not
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


class Switch:
    """The first case whose condition holds runs, else the default.

        with fluid.layers.Switch() as switch:
            with switch.case(step < limit):
                fluid.layers.assign(fast, rate)
            with switch.default():
                fluid.layers.assign(slow, rate)

    Raises ValueError for a case outside `with`, or a default without a case before it.
    """

    def __init__(self, name: str | None = None) -> None:
        self.helper = LayerHelper("switch", name=name)
        self.inside_scope = False
        self.pre_not_conditions: list[Variable] = []

    def case(self, condition: Variable) -> AbstractContextManager[None]:
        """The block for where `condition`, bool of shape (1,), and no former one holds."""
        self._require_scope("case")
        check_variables("Switch.case", {"condition": condition})
        if condition.dtype != VarType.BOOL:
            raise TypeError(f"Switch.case: {condition.name} is {condition.dtype!r}, not bool")
        none = logical_not(x=condition)
        if self.pre_not_conditions:
            before = self.pre_not_conditions[-1]
            none = logical_and(x=before, y=none)
            condition = logical_and(x=before, y=condition)
        self.pre_not_conditions.append(none)
        return ConditionalBlock([condition], is_scalar_condition=True).block()

    def default(self) -> AbstractContextManager[None]:
        """The block for where no condition holds."""
        self._require_scope("default")
        if not self.pre_not_conditions:
            raise ValueError("there should be at least one condition before Switch.default")
        last = self.pre_not_conditions[-1]
        return ConditionalBlock([last], is_scalar_condition=True).block()

    def _require_scope(self, what: str) -> None:
        if not self.inside_scope:
            raise ValueError(f"{what} should be called inside with: `with Switch() as switch:`")

    def __enter__(self) -> Switch:
        self.inside_scope = True
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.inside_scope = False
