"""Blocks of operators that run on a condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from refluid.build import apply, at_once, check_variables
from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.block import Block
from refluid.ir.program import Program
from refluid.ir.variable import Variable


class BlockGuard:
    """Within the block, layers write to a new block of the program.

    NotImplementedError where operators run at once: they would, whatever the condition says.
    """

    def __init__(self, main_program: Program) -> None:
        if not isinstance(main_program, Program):
            raise TypeError("BlockGuard takes a program")
        self.main_program = main_program

    def __enter__(self) -> None:
        if at_once():
            raise NotImplementedError(
                "blocks of operators (While, Switch, IfElse, StaticRNN, DynamicRNN) belong to "
                "programs: in dygraph write Python's if, while and for, or fluid.layers.cond, "
                "case, switch_case and while_loop"
            )
        self.main_program.create_block()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.main_program.rollback()


def read_from_outside(block: Block, written: Sequence[str] = ()) -> list[str]:
    """Variables that the operators of a block read before any of them has written them.

    written: what counts as written from the start.
    """
    known = set(written)
    found: dict[str, None] = {}
    for op in block.ops:
        found |= dict.fromkeys(name for name in op.input_arg_names if name not in known)
        known |= set(op.output_arg_names)
    return list(found)


def written_outside(block: Block, parent: Block, written: Sequence[str] = ()) -> list[Variable]:
    """Variables of enclosing blocks that the operators of a block write, `written` first."""
    names = dict.fromkeys(written)
    names |= dict.fromkeys(name for op in block.ops for name in op.output_arg_names)
    outer = [parent.find_var_recursive(name) for name in names if not block.has_var(name)]
    return [var for var in outer if var is not None]


def outer_variables(names: Sequence[str], parent: Block) -> list[Variable]:
    """Those of the named variables that `parent` or a block around it has."""
    found = [parent.find_var_recursive(name) for name in names]
    return [var for var in found if var is not None]


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
        outputs = {
            "Out": written_outside(inside, parent),
            "Scope": parent.create_var(type=VarType.STEP_SCOPES),
        }
        inputs = {"Cond": self.inputs, "Input": outer_variables(read, parent)}
        attrs = {"sub_block": inside, "is_scalar_condition": self.is_scalar_condition}
        apply("conditional_block", inputs, outputs, attrs, block=parent)
