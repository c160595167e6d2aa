"""Blocks that run on a condition: ConditionalBlock and Switch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper import LayerHelper, check_variables
from refluid.fluid.layers.elementwise import logical_and, logical_not
from refluid.ir.block import Block
from refluid.ir.program import Program
from refluid.ir.variable import Variable


class BlockGuard:
    """Within the block, layers write to a new block of the program."""

    def __init__(self, main_program: Program) -> None:
        if not isinstance(main_program, Program):
            raise TypeError("BlockGuard takes a program")
        self.main_program = main_program

    def __enter__(self) -> None:
        self.main_program.create_block()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.main_program.rollback()


def read_from_outside(block: Block) -> list[str]:
    """Variables that the operators of a block read before any of them has written them."""
    written: set[str] = set()
    found: dict[str, None] = {}
    for op in block.ops:
        found |= dict.fromkeys(name for name in op.input_arg_names if name not in written)
        written |= set(op.output_arg_names)
    return list(found)


def written_outside(block: Block, parent: Block) -> list[Variable]:
    """Variables of enclosing blocks that the operators of a block write."""
    names = dict.fromkeys(name for op in block.ops for name in op.output_arg_names)
    outer = [parent.find_var_recursive(name) for name in names if not block.has_var(name)]
    return [var for var in outer if var is not None]


class ConditionalBlock:
    """Operators that run where the condition holds.

    inputs: one bool variable of shape (1,) if `is_scalar_condition`; else any variables, the
    block running where none of them is empty.
    """

    def __init__(
        self,
        inputs: Sequence[Variable],
        is_scalar_condition: bool = False,
        name: str | None = None,
    ) -> None:
        check_variables("ConditionalBlock", {"inputs": inputs})
        self.inputs = list(inputs)
        self.is_scalar_condition = is_scalar_condition
        self.helper = LayerHelper("conditional_block", name=name)

    @contextmanager
    def block(self) -> Iterator[None]:
        """Layers within the `with` block are those that run on the condition."""
        program = self.helper.main_program
        with BlockGuard(program):
            yield
            inside = program.current_block()
        self._append(inside)

    def _append(self, inside: Block) -> None:
        parent = self.helper.main_program.current_block()
        conditions = {var.name for var in self.inputs}
        read = [name for name in read_from_outside(inside) if name not in conditions]
        parent.append_op(
            type="conditional_block",
            inputs={
                "Cond": self.inputs,
                "Input": [parent.var_recursive(name) for name in read],
            },
            outputs={
                "Out": written_outside(inside, parent),
                "Scope": [parent.create_var(type=VarType.STEP_SCOPES)],
            },
            attrs={"sub_block": inside, "is_scalar_condition": self.is_scalar_condition},
        )


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
    ) -> bool:
        self.inside_scope = False
        return exc_type is None
