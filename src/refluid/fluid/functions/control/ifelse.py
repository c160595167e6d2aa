"""IfElse: rows of a batch go through one of two networks, each row where its condition says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from refluid.build import How, check_variables, op
from refluid.core import names
from refluid.fluid.functions.control.conditional import ConditionalBlock
from refluid.fluid.functions.control.ranks import merge_lod_tensor
from refluid.fluid.functions.tensor.assignment import assign
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.block import Block
from refluid.ir.variable import Variable


class IfElse:
    """Parts a batch by a condition and puts the results together again.

        either = fluid.layers.IfElse(cond)
        with either.true_block():
            either.output(fluid.layers.scale(either.input(x), 2.0))
        with either.false_block():
            either.output(either.input(x))
        (out,) = either()

    cond: bool of shape (n, 1). Raises ValueError for `input` and `output` outside of a block, and
    where the blocks have different numbers of outputs.
    """

    OUT_IF_ELSE_BLOCKS, IN_IF_ELSE_TRUE_BLOCKS, IN_IF_ELSE_FALSE_BLOCKS = range(3)

    def __init__(self, cond: Variable, name: str | None = None) -> None:
        check_variables("IfElse", {"cond": cond})
        self.helper = LayerHelper("ifelse", name=name)
        self.cond = cond
        self.status = self.OUT_IF_ELSE_BLOCKS
        self.input_table: dict[str, tuple[Variable, Variable]] = {}
        self.output_table: tuple[list[Variable], list[Variable]] = ([], [])

    def true_block(self) -> AbstractContextManager[None]:
        """The block for the rows whose condition holds."""
        return self._block(self.IN_IF_ELSE_TRUE_BLOCKS)

    def false_block(self) -> AbstractContextManager[None]:
        """The block for the other rows."""
        return self._block(self.IN_IF_ELSE_FALSE_BLOCKS)

    @contextmanager
    def _block(self, status: int) -> Iterator[None]:
        if self.status != self.OUT_IF_ELSE_BLOCKS:
            raise ValueError("cannot enter a block of IfElse inside another one")
        self.status = status
        try:
            with ConditionalBlock([self.cond]).block():
                yield
        finally:
            self.status = self.OUT_IF_ELSE_BLOCKS
        if not self._outputs(status):
            raise ValueError("Must set output inside block")

    def _outputs(self, status: int) -> list[Variable]:
        return self.output_table[0 if status == self.IN_IF_ELSE_TRUE_BLOCKS else 1]

    def _parent(self) -> Block:
        parent = self.helper.main_program.current_block().parent
        assert parent is not None
        return parent

    def input(self, x: Variable) -> Variable:
        """The rows of `x` that this block is for."""
        if self.status == self.OUT_IF_ELSE_BLOCKS:
            raise ValueError("input must in true/false blocks")
        if x.name not in self.input_table:
            self.input_table[x.name] = self._split(x)
        return self.input_table[x.name][0 if self.status == self.IN_IF_ELSE_TRUE_BLOCKS else 1]

    def _split(self, x: Variable) -> tuple[Variable, Variable]:
        parent = self._parent()
        how: How = {"prefix": f"ifelse_input{self.helper.name}", "block": parent}
        inputs, makes = {"X": x, "Mask": self.cond}, ("OutTrue", "OutFalse")
        true_part, false_part = op("split_lod_tensor", inputs, {"level": 0}, makes, **how)
        return true_part, false_part

    def output(self, *outs: Variable) -> None:
        """What the block gives for its rows."""
        if self.status == self.OUT_IF_ELSE_BLOCKS:
            raise ValueError("output can only be invoked in the sub-block")
        parent = self._parent()
        for out in outs:
            check_variables("IfElse.output", {"out": out})
            outside = parent.create_var(
                name=names.generate(f"{self.helper.name}_output"), dtype=out.dtype
            )
            assign(out, outside)
            self._outputs(self.status).append(outside)

    def __call__(self) -> list[Variable]:
        """The outputs of both blocks, rows in their old order."""
        if self.status != self.OUT_IF_ELSE_BLOCKS:
            raise ValueError("IfElse::__call__ must be out of sub-block")
        true_outs, false_outs = self.output_table
        if not true_outs and not false_outs:
            raise ValueError("Must invoke true_block/false_block before __call__")
        if not true_outs or not false_outs:
            return true_outs or false_outs
        if len(true_outs) != len(false_outs):
            raise ValueError("The output number of the blocks of IfElse must be the same")
        return [
            merge_lod_tensor(in_true=one, in_false=other, mask=self.cond, x=self.cond, level=0)
            for one, other in zip(true_outs, false_outs, strict=True)
        ]
