"""How each operator with a sub-block is differentiated: what flows in, what its operator is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from refluid.autodiff.making import Draft, bare_op, wanted
from refluid.autodiff.naming import GradientNames
from refluid.autodiff.path import carried_gradients
from refluid.ir.attributes import DEVICE, ROLE, AttrType, OpRole
from refluid.ir.block import Block
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator


@dataclass(frozen=True)
class Gradients:
    """What a gradient operator is made of, its gradient block being finished.

    known: outputs of the forward operator that have a gradient. block: the gradient block.
    """

    names: GradientNames
    stopped: Collection[str]
    known: Collection[str]
    block: Block

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


@dataclass(frozen=True)
class Rule:
    """entering: whose gradients enter the block, of a forward operator, of its outputs that have
    a gradient and of what is stopped in its block. draft: the gradient operator."""

    entering: Callable[[Operator, set[str], set[str]], Iterable[str]]
    draft: Callable[[Operator, Gradients], Draft]


def _enters_loop(op: Operator, known: set[str], stopped: set[str]) -> set[str]:
    both = [(name, name) for name in op.input("X") if name in op.output("Out")]
    return known | carried_gradients(op.attr("sub_block"), known, both, stopped)


def _while_grad(op: Operator, gradients: Gradients) -> Draft:
    """A round's gradients of what it changes are those that the round before it starts with."""
    outs = [name for name in gradients.read if name in op.output("Out")][::-1]
    inputs = {
        "X": op.input("X"),
        "Out": op.output("Out"),
        "Out" + GRAD: [gradients.names.of(name) for name in outs],
        "StepScopes": op.output("StepScopes"),
    }
    outputs = {"X" + GRAD: gradients.made(op.input("X"))}
    plain = {"original_output_grad": [name + GRAD for name in outs]}
    grad = _like_forward(op, gradients, inputs, outputs, plain)
    return Draft(grad, [gradients.names.of(name) for name in outs if name in gradients.known])


def _enters_rounds(op: Operator, known: set[str], stopped: set[str]) -> set[str]:
    states = list(zip(op.attr("ex_states"), op.attr("states"), strict=True))
    outs = set(op.output("outputs"))
    return outs | carried_gradients(op.attr("sub_block"), outs, states, stopped)


def _recurrent_grad(op: Operator, gradients: Gradients) -> Draft:
    outs = op.output("outputs")
    inputs = {
        "inputs": op.input("inputs"),
        "initial_states": op.input("initial_states"),
        "parameters": op.input("parameters"),
        "outputs": outs,
        "step_scopes": op.output("step_scopes"),
        "outputs" + GRAD: [gradients.names.of(name) for name in outs],
        "step_scopes" + GRAD: op.output("step_scopes"),
    }
    outputs = {
        "inputs" + GRAD: gradients.made(op.input("inputs")),
        "initial_states" + GRAD: gradients.made(op.input("initial_states"), op.attr("ex_states")),
        "parameters" + GRAD: gradients.made(op.input("parameters")),
    }
    return Draft(_like_forward(op, gradients, inputs, outputs, {}), gradients.given(outs))


def _like_forward(
    op: Operator,
    gradients: Gradients,
    inputs: Mapping[str, list[str]],
    outputs: Mapping[str, list[str]],
    plain: Mapping[str, list[str]],
) -> Operator:
    """A gradient operator with the attributes of its forward operator, and lists of names."""
    attrs = {**op.attrs, ROLE: int(OpRole.BACKWARD), "sub_block": gradients.block, **plain}
    kinds = {**op.attr_types, **dict.fromkeys(plain, AttrType.STRINGS)}
    return Operator(gradients.names.target, op.type + "_grad", inputs, outputs, attrs, kinds)


def _conditional_grad(op: Operator, gradients: Gradients) -> Draft:
    """Outputs without a gradient may have no value either: their branch wasn't taken."""
    outs = op.output("Out")
    given = [gradients.names.of(name) if name in gradients.known else EMPTY for name in outs]
    inputs = {
        "Cond": op.input("Cond"),
        "Input": op.input("Input"),
        "Out": outs,
        "Out" + GRAD: given,
        "Scope": op.output("Scope"),
    }
    outputs = {"Input" + GRAD: gradients.made(op.input("Input"))}
    attrs = {
        "sub_block": gradients.block,
        "is_scalar_condition": op.attr("is_scalar_condition"),
    }
    device = op.attrs.get(DEVICE, "")
    grad = bare_op(
        gradients.names.target, "conditional_block_grad", inputs, outputs, attrs, device=device
    )
    return Draft(grad, [name for name in given if name != EMPTY])


RULES: dict[str, Rule] = {
    "while": Rule(_enters_loop, _while_grad),
    "recurrent": Rule(_enters_rounds, _recurrent_grad),
    "conditional_block": Rule(lambda op, known, stopped: known, _conditional_grad),
}
