"""A `recurrent` operator with the operator of its gradients, as passes see and change them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from refluid.analysis.uses import blocks_in_use
from refluid.ir.attributes import CALLSTACK, DEVICE, NAMESCOPE, ROLE
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.control.recurrent import STEP_VALUES
from refluid.ops.effects import LASTING
from refluid.ops.registry import find


@dataclass
class Loop:
    """A loop over time steps; every variable of its blocks is written once.

    before, after: operators to be put before the loop and after that of the gradients.
    hoisted: operators that the body had once.
    """

    forward: Operator
    backward: Operator | None
    before: list[Operator] = field(default_factory=list)
    after: list[Operator] = field(default_factory=list)
    hoisted: list[Operator] = field(default_factory=list)

    @property
    def body(self) -> Block:
        block: Block = self.forward.attr("sub_block")
        return block

    @property
    def gradient(self) -> Block | None:
        return None if self.backward is None else self.backward.attr("sub_block")

    @property
    def gradient_ops(self) -> Sequence[Operator]:
        return [] if self.gradient is None else self.gradient.ops

    @property
    def steps(self) -> int:
        """How many time steps there are, -1 where that isn't known."""
        var = self.forward.block.var_recursive(self.forward.input("inputs")[0])
        return int(var.shape[0]) if var.has_description() and var.shape else -1

    # -- what variables are ---------------------------------------------------

    def is_step(self, name: str) -> bool:
        """Whether it is one time step of a tensor that the outer block has whole."""
        return name in self.forward.input("inputs")

    def is_invariant(self, name: str) -> bool:
        """Whether it is the same in all time steps."""
        made = {one for op in self.body.ops for one in op.output_arg_names}
        return not self.is_step(name) and name not in made and name not in self.states()

    def states(self) -> list[str]:
        """The names that the states of the step before have."""
        return list(self.forward.attr("ex_states")) if self.forward.attr("has_states") else []

    def bound(self) -> set[str]:
        """Variables of the body that depend on the states of the step before."""
        found = set(self.states())
        for op in self.body.ops:
            if found & set(op.input_arg_names):
                found |= set(op.output_arg_names)
        return found

    def leaves(self, name: str) -> bool:
        """Whether the loop gives it to the next step or to the outer block."""
        states = self.forward.attr("states") if self.forward.attr("has_states") else []
        return name in self.forward.output("outputs") or name in states

    def shape(self, name: str) -> Sequence[int]:
        """The shape of one time step of it."""
        var = self.body.find_var_recursive(name)
        return () if var is None or not var.has_description() else var.shape

    def gradient_of(self, op: Operator) -> Operator | None:
        """The operator of the gradient block for one of the body."""
        given = op.outputs | op.inputs
        found = [
            one
            for one in self.gradient_ops
            if one.type == f"{op.type}_grad"
            and all(
                names == given.get(slot)
                for slot, names in one.inputs.items()
                if names and not slot.endswith(GRAD)
            )
        ]
        return found[0] if len(found) == 1 else None

    def add_input(self, slot: str, name: str) -> None:
        """The loop reads one more variable of the outer block."""
        self.forward.set_input(slot, [*self.forward.input(slot), name])

    # -- gradients of the operator --------------------------------------------

    def outer_gradient(self, slot: str, name: str) -> str | None:
        """What the outer block calls the gradient of an input; None where nobody wants it."""
        given = () if self.backward is None else self.backward.input(slot)
        if self.backward is None or list(given).count(name) != 1:
            return None
        outer = self.backward.outputs.get(slot + GRAD, [])
        place = list(given).index(name)
        return outer[place] if place < len(outer) and outer[place] != EMPTY else None

    def disown(self, slot: str, name: str) -> None:
        """The operator of the gradients doesn't give that of this input any more."""
        assert self.backward is not None
        gradients = self.backward.output(slot + GRAD)
        gradients[self.backward.input(slot).index(name)] = EMPTY
        self.backward.set_output(slot + GRAD, gradients)

    def own(self, slot: str, name: str, outer: str) -> None:
        """The operator of the gradients gives that of one more input, as the variable `outer`."""
        assert self.backward is not None
        given, gradients = self.backward.input(slot), self.backward.output(slot + GRAD)
        gradients += [EMPTY] * (len(given) - len(gradients))
        self.backward.set_input(slot, [*given, name])
        self.backward.set_output(slot + GRAD, [*gradients, outer])

    # -- values of all steps --------------------------------------------------

    def all_steps(self, name: str) -> str:
        """The outer variable with all time steps of a variable of the body."""
        if not self.is_step(name) and name not in self.forward.output("outputs"):
            self.declare(name, [self.steps, *self.shape(name)], like=name)
            self.forward.set_output("outputs", [*self.forward.output("outputs"), name])
        return name

    def all_gradients(self, name: str, like: str) -> str:
        """The outer variable with all time steps of one of the gradient block's variables."""
        assert self.backward is not None
        outer = f"{name}@STEPS"
        known = list(self.backward.attrs.get(STEP_VALUES) or [])
        if name not in known:
            self.declare(outer, [self.steps, *self.shape(like)], like=like)
            self.backward.set_output(STEP_VALUES, [*self.backward.output(STEP_VALUES), outer])
            self.backward.set_attr(STEP_VALUES, [*known, name])
        return outer

    def declare(self, name: str, shape: Sequence[int], like: str) -> None:
        """A variable of the outer block."""
        dtype = self.body.var_recursive(like).dtype
        self.forward.block.create_var(name=name, shape=list(shape), dtype=dtype)

    def make(
        self,
        source: Operator,
        op_type: str,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        attrs: Mapping[str, Any] | None = None,
        block: Block | None = None,
    ) -> Operator:
        """An operator, of the outer block if no other is given, in the place of `source`."""
        common = {name: source.attrs.get(name) for name in (ROLE, NAMESCOPE, CALLSTACK, DEVICE)}
        home = self.forward.block if block is None else block
        made = home.make_op(op_type, inputs, outputs, {**(attrs or {}), **common})
        made.alias = source.title
        return made

    # -- in the end -----------------------------------------------------------

    def place(self) -> None:
        """Puts the new operators into the outer block."""
        around = {id(self.forward): (self.before, []), id(self.backward): ([], self.after)}
        ops: list[Operator] = []
        for op in self.forward.block.ops:
            before, after = around.get(id(op), ([], []))
            ops += [*before, op, *after]
        Editor(self.forward.block).assign(ops)
        self.before, self.after = [], []

    def drop_unread(self) -> None:
        """Operators and gradients of the gradient block that nobody reads go."""
        if self.backward is None or self.gradient is None:
            return
        wanted = {name + GRAD for name in self.states()}
        wanted |= set(self.backward.attrs.get(STEP_VALUES) or [])
        for slot in ("inputs", "parameters"):
            given = self.backward.input(slot)
            wanted |= {one + GRAD for one in given if self.outer_gradient(slot, one)}
        ops: list[Operator] = []
        for op in reversed(self.gradient.ops):
            for slot, names in op.outputs.items():
                op.set_output(slot, [name if name in wanted else EMPTY for name in names])
            if set(op.output_arg_names) - {EMPTY} or not _is_plain(op):
                wanted |= set(op.input_arg_names)
                ops.append(op)
        Editor(self.gradient).assign(ops[::-1])


def _is_plain(op: Operator) -> bool:
    definition = find(op.type)
    return definition is not None and not definition.inline and not definition.effects & LASTING


def find_loops(program: Program) -> Iterator[Loop]:
    """The loops that can be rewritten: each with one operator of gradients, or none."""
    for block in blocks_in_use(program):
        for op in [op for op in block.ops if op.type == "recurrent"]:
            grads = [one for one in _gradients(program) if _belongs(one, op)]
            loop = Loop(op, grads[0] if grads else None)
            alone = len(grads) <= 1 and all(one.block is block for one in grads)
            if alone and _written_once(loop.body.ops) and _written_once(loop.gradient_ops):
                yield loop


def _gradients(program: Program) -> list[Operator]:
    blocks = blocks_in_use(program)
    return [op for block in blocks for op in block.ops if op.type == "recurrent_grad"]


def _belongs(gradient: Operator, forward: Operator) -> bool:
    block, body = gradient.attr("sub_block"), forward.attr("sub_block")
    return bool(block.forward_block_idx == body.idx)


def _written_once(ops: Iterable[Operator]) -> bool:
    """Whether no variable is written twice, and none by blocks further inside."""
    names = [name for op in ops for name in op.output_arg_names if name != EMPTY]
    inner = any(op.has_sub_blocks for op in ops)
    return not inner and len(names) == len(set(names))
