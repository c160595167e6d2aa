"""A backward pass through sub-blocks: each gets a gradient block, run by a gradient operator.

    while(X, Out, sub_block=b1)   ->   while_grad(X, Out, Out@GRAD, X@GRAD, sub_block=b2)

The gradient block reads the gradients that flow into the forward block and the values of the
forward block's own variables; it writes, under their plain names, the gradients of what the
forward block reads from outside.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from refluid.autodiff.accumulation import accumulate
from refluid.autodiff.appending import Callback, append_drafts
from refluid.autodiff.checks import stopped_variables
from refluid.autodiff.control import BlockGradients, block_draft, entering
from refluid.autodiff.making import (
    GradientDraft,
    MakeGradients,
    draft_backward,
    plain_draft,
    without_gradient,
)
from refluid.autodiff.naming import GradientNames
from refluid.core.errors import OperatorNotImplemented
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ops.registry import find


@dataclass(frozen=True)
class BackwardPass:
    """What holds for all blocks of one backward pass.

    make: says which operators compute the gradient of an operator without sub-block.
    without: names of variables that get no gradient. callbacks: see `append_drafts`.
    """

    make: MakeGradients
    without: Collection[str] = ()
    callbacks: Sequence[Callback] = field(default=())

    def stopped(self, block: Block) -> set[str]:
        """Names of the variables that get no gradient, as `block` sees them."""
        return stopped_variables(block, self.without)

    def drafts(
        self, path: Sequence[Operator], names: GradientNames, seeds: Sequence[GradientDraft]
    ) -> list[GradientDraft]:
        """The gradient operators of a path, complete, the `seeds` in front."""
        live = {name for seed in seeds for name in seed.op.output_arg_names}
        return accumulate([*seeds, *self.without_sums(path, names, live)], names)

    def without_sums(
        self, path: Sequence[Operator], names: GradientNames, live: set[str]
    ) -> list[GradientDraft]:
        """The gradient operators of a path before gradients of one variable are summed.

        live: names of the gradients that are there; those made are added.
        """
        return draft_backward(path, names, self.stopped(names.block), live, self._make)

    def _make(
        self, forward: Operator, names: GradientNames, stopped: Collection[str], live: set[str]
    ) -> list[GradientDraft]:
        if forward.has_sub_blocks:
            return self._through_block(forward, names, stopped, live)
        return [plain_draft(forward, grad, names, stopped) for grad in self.make(forward)]

    def _through_block(
        self, forward: Operator, names: GradientNames, stopped: Collection[str], live: set[str]
    ) -> list[GradientDraft]:
        definition = find(forward.type)
        nested = None if definition is None else definition.nested
        if nested is None or nested.gradient is None:
            raise OperatorNotImplemented(without_gradient(forward))
        inner: Block = forward.attr("sub_block")
        known = {name for name in forward.output_arg_names if names.known(name) in live}
        given = entering(forward, nested, known, self.stopped(inner))
        target = _gradient_block(inner, names.target)
        inner_names = GradientNames(inner, target=target)
        inner_live = {inner_names.of(name) for name in given}
        made = draft_backward(inner.ops, inner_names, self.stopped(inner), inner_live, self._make)
        append_drafts(accumulate(made, inner_names), inner_names, self.callbacks)
        gradients = BlockGradients(names, stopped, known, target)
        return [block_draft(forward, nested.gradient(forward, gradients), gradients)]


def _gradient_block(inner: Block, parent: Block) -> Block:
    """A new block for the gradient operators of `inner`."""
    program = inner.program
    former = program.current_block_idx
    block = program.create_block(parent.idx)
    block.forward_block_idx = inner.idx
    program.current_block_idx = former
    return block
