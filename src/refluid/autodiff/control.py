"""How each operator with a sub-block is differentiated: what flows in, what its operator is."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from refluid.autodiff.making import GradientDraft, bare_op, wanted
from refluid.autodiff.naming import GradientNames
from refluid.autodiff.path import carried_gradients
from refluid.ir.attributes import DEVICE, ROLE, AttrType, OpRole
from refluid.ir.block import Block
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ops.nested import BlockGradient, Nested


@dataclass(frozen=True)
class BlockGradients:
    """What a gradient operator is made of, its gradient block being finished.

    known: outputs of the forward operator that have a gradient. block: the gradient block.
    """

    names: GradientNames
    stopped: Collection[str]
    known: Collection[str]
    block: Block

    def of(self, variable: str) -> str:
        """Name of the gradient of an outer variable."""
        return self.names.of(variable)

    def given(self, outputs: Iterable[str]) -> list[str]:
        """Gradients of outputs that are there, or that are zeros where gradients are stopped.

        Gradients of other outputs are named in the operator but nobody makes them: it takes
        them for zeros.
        """
        there = [name for name in outputs if name in self.known or name in self.stopped]
        return [self.names.of(name) for name in there]

    @property
    def read(self) -> list[str]:
        """Variables whose gradients the block takes from outside, in order of first use."""
        written: set[str] = set()
        found: dict[str, None] = {}
        for op in self.block.ops:
            found |= dict.fromkeys(name for name in op.input_arg_names if name not in written)
            written |= set(op.output_arg_names)
        return [name.removesuffix(GRAD) for name in found if name.endswith(GRAD)]

    def made(self, names: Iterable[str], inner: Iterable[str] | None = None) -> list[str]:
        """Gradients of outer variables, which the block knows by the names `inner`."""
        written = {name for op in self.block.ops for name in op.output_arg_names}
        return wanted(
            [
                self.names.of(name) if own + GRAD in written and name not in self.stopped else EMPTY
                for name, own in zip(names, inner or names, strict=True)
            ]
        )


def entering(op: Operator, nested: Nested, known: set[str], stopped: set[str]) -> set[str]:
    """Variables of the block whose gradients enter it. known: outputs that have a gradient."""
    targets = nested.entering(op, known)
    return targets | carried_gradients(op.attr("sub_block"), targets, nested.carried(op), stopped)


def block_draft(op: Operator, made: BlockGradient, gradients: BlockGradients) -> GradientDraft:
    """The gradient operator: with the forward's attributes, or with no more than its own."""
    block, type_ = {"sub_block": gradients.block}, op.type + "_grad"
    if made.attrs is not None:
        attrs, device = {**block, **made.attrs}, op.attrs.get(DEVICE, "")
        target = gradients.names.target
        grad = bare_op(target, type_, made.inputs, made.outputs, attrs, device=device)
    else:
        attrs = {**op.attrs, ROLE: int(OpRole.BACKWARD), **block, **made.lists}
        kinds = {**op.attr_types, **dict.fromkeys(made.lists, AttrType.STRINGS)}
        grad = Operator(gradients.names.target, type_, made.inputs, made.outputs, attrs, kinds)
    return GradientDraft(grad, made.given)
