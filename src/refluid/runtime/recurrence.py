"""`recurrent`, the operator of StaticRNN, and its gradient as Python loops of a plan.

The sub-block sees one time step of each input under the input's name, and the states of the
step before as `ex_states`. Its `states` go to the next step, its outputs are stacked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from refluid.analysis.liveness import EMPTY, key_of
from refluid.ir.operator import Operator
from refluid.ops.recurrent import STEP_VALUES
from refluid.ops.signature import GRAD
from refluid.runtime.accumulator import Accumulator
from refluid.runtime.control import (
    gradient_names,
    handles,
    inner_gradient,
    write_forward,
    write_gradient,
)
from refluid.runtime.tape import make_tape

if TYPE_CHECKING:
    from refluid.runtime.codegen import Writer


@handles("recurrent")
def _recurrent(writer: Writer, op: Operator) -> None:
    """Runs the sub-block once per time step (axis 0 of the inputs), backwards if `reverse`."""
    block = op.attr("sub_block")
    tape = make_tape(op)
    record = writer.local(op.block, op.output("step_scopes")[0])
    source, prefix = writer.source, f"r{block.idx}"
    if tape.wanted:
        source.add(f"{record} = []")
    inputs = [(writer.local(op.block, name), name) for name in op.input("inputs")]
    for index, (outer, _) in enumerate(inputs):
        source.add(f"{prefix}x{index} = {outer}.unbind(0)", op)
    for index, name in enumerate(op.input("initial_states")):
        source.add(f"{prefix}s{index} = {writer.local(op.block, name)}")
    for index, _ in enumerate(op.output("outputs")):
        source.add(f"{prefix}o{index} = []")
    steps = f"range(len({prefix}x0))"
    order = f"reversed({steps})" if op.attr("reverse") else steps
    with source.block(f"for t{block.idx} in {order}:", op):
        for index, (_, name) in enumerate(inputs):
            writer.enter(block, name, f"{prefix}x{index}[t{block.idx}]")
        for index, name in enumerate(_states(op, "ex_states")):
            writer.enter(block, name, f"{prefix}s{index}")
        results = {key_of(block, name) for name in _states(op, "states") + op.output("outputs")}
        write_forward(writer, op, tape, f"{record}.append({{}})", results)
        for index, name in enumerate(_states(op, "states")):
            source.add(f"{prefix}s{index} = {writer.local(block, name)}")
        for index, name in enumerate(op.output("outputs")):
            source.add(f"{prefix}o{index}.append({writer.local(block, name)})")
    stack = source.constant("stack_steps", stack_steps)
    backwards = bool(op.attr("reverse"))
    for index, name in enumerate(op.output("outputs")):
        outer = writer.local(op.block, name)
        source.add(f"{outer} = {stack}({prefix}o{index}, {backwards})", op)
    source.add(f"del {', '.join(f'{prefix}x{index}' for index, _ in enumerate(inputs))}")


@handles("recurrent_grad")
def _recurrent_grad(writer: Writer, op: Operator) -> None:
    """Runs the gradient block for each time step, the last one first."""
    block, source = op.attr("sub_block"), writer.source
    record = writer.local(op.block, op.input("step_scopes")[0])
    prefix, step = f"g{block.idx}", f"t{block.idx}"
    backwards = bool(op.attr("reverse"))
    outputs = list(zip(op.input("outputs"), op.input("outputs" + GRAD), strict=False))
    states = list(zip(op.input("initial_states"), _states(op, "states"), strict=False))
    summed, stepped = gradient_names(op, "parameters"), gradient_names(op, "inputs")
    kept = list(zip(op.attrs.get(STEP_VALUES) or [], op.output(STEP_VALUES), strict=True))
    zeros = source.constant("zeros", torch.zeros_like)
    accumulator = source.constant("Accumulator", Accumulator)
    for index, (_, grad) in enumerate(outputs):
        source.add(f"{prefix}o{index} = {writer.local(op.block, grad)}")
    for index, (initial, _) in enumerate(states):
        source.add(f"{prefix}s{index} = {zeros}({writer.local(op.block, initial)})")
    for index, _ in enumerate(stepped):
        source.add(f"{prefix}x{index} = []")
    for index, _ in enumerate(summed):
        source.add(f"{prefix}p{index} = {accumulator}()")
    for index, _ in enumerate(kept):
        source.add(f"{prefix}k{index} = []")
    source.add(f"{prefix}n = len({record})")
    with source.block(f"while {record}:", op):
        place = f"{prefix}n - len({record})" if backwards else f"len({record}) - 1"
        source.add(f"{step} = {place}")
        _give_gradients(writer, op, prefix, step, [name for name, _ in outputs])
        wanted = [name for name, _ in summed + stepped] + _states(op, "ex_states")
        write_gradient(writer, op, f"{record}.pop()", wanted, [name for name, _ in kept])
        for index, name in enumerate(_states(op, "ex_states")):
            source.add(f"{prefix}s{index} = {inner_gradient(writer, op, name)}")
        for index, (name, _) in enumerate(stepped):
            source.add(f"{prefix}x{index}.append({inner_gradient(writer, op, name)})")
        for index, (name, _) in enumerate(summed):
            source.add(f"{prefix}p{index}.add({inner_gradient(writer, op, name)})")
        for index, (name, _) in enumerate(kept):
            source.add(f"{prefix}k{index}.append({writer.local(block, name)})")
    stack = source.constant("stack_steps", stack_steps)
    for index, (_, outer_name) in enumerate(kept):
        outer = writer.local(op.block, outer_name)
        source.add(f"{outer} = {stack}({prefix}k{index}, {not backwards})", op)
    for index, (_, grad) in enumerate(stepped):
        outer = writer.local(op.block, grad)
        source.add(f"{outer} = {stack}({prefix}x{index}, {not backwards})", op)
    for index, grad in enumerate(op.output("initial_states" + GRAD)):
        if grad != EMPTY:
            source.add(f"{writer.local(op.block, grad)} = {prefix}s{index}")
    for index, (name, grad) in enumerate(summed):
        like = writer.local(op.block, name)
        source.add(f"{writer.local(op.block, grad)} = {prefix}p{index}.result({like})", op)


def _give_gradients(
    writer: Writer, op: Operator, prefix: str, step: str, outputs: Sequence[str]
) -> None:
    """The gradients of the step's outputs and of its states, added where both are one variable."""
    block, source = op.attr("sub_block"), writer.source
    given: dict[str, str] = {}
    for index, name in enumerate(outputs):
        outer = f"{prefix}o{index}"
        given[name + GRAD] = f"None if {outer} is None else {outer}[{step}]"
    for index, name in enumerate(_states(op, "states")):
        grad, state = name + GRAD, f"{prefix}s{index}"
        if grad in given:
            add = source.constant("add_gradients", add_gradients)
            given[grad] = f"{add}({given[grad]}, {state})"
        else:
            given[grad] = state
    for grad, value in given.items():
        writer.enter(block, grad, value)


def _states(op: Operator, name: str) -> list[str]:
    return list(op.attr(name)) if op.attr("has_states") else []


def stack_steps(values: list[Tensor], backwards: bool) -> Tensor:
    """One tensor of the time steps' values, in the order of time."""
    return torch.stack(values[::-1] if backwards else values)


def add_gradients(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """The sum of two gradients, of which each may be missing."""
    if first is None or second is None:
        return second if first is None else first
    return first + second
