"""`recurrent`, the operator of StaticRNN, and its gradient as Python loops of a plan.

The sub-block sees one time step of each input under the input's name, and the states of the
step before as `ex_states`. Its `states` go to the next step, its outputs are stacked.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.analysis.uses import key_of
from refluid.core.accumulator import Accumulator
from refluid.core.errors import EnforceNotMet
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ops.control.recurrent import STEP_VALUES
from refluid.runtime.blocks import (
    append,
    enter,
    gradient_names,
    inner_gradient,
    is_rows,
    write_forward,
    write_gradient,
)
from refluid.runtime.steps import Bind, Call, For, Free, While
from refluid.runtime.tape import make_tape
from refluid.runtime.trees import Formula, Name, Tree, called, entry, method
from refluid.runtime.writing import Writing, handles


@handles("recurrent")
def _recurrent(writer: Writing, op: Operator) -> None:
    """Runs the sub-block once per time step (axis 0 of the inputs), backwards if `reverse`."""
    block, add = op.attr("sub_block"), writer.source.add
    tape = make_tape(op)
    record = writer.local(op.block, op.output("step_scopes")[0])
    step, backwards = Name(f"t{block.idx}"), bool(op.attr("reverse"))
    if tape.wanted:
        add(Bind(record, []))
    parts = _named(f"r{block.idx}x", op.input("inputs"))
    states = _named(f"r{block.idx}s", op.input("initial_states"))
    outputs = _named(f"r{block.idx}o", op.output("outputs"))
    for part, name in parts:
        add(Bind(part, method(writer.local(op.block, name), "unbind", 0), op=op))
    for state, name in states:
        add(Bind(state, writer.local(op.block, name)))
    for output, _ in outputs:
        add(Bind(output, []))
    steps = "reversed(range(len({})))" if backwards else "range(len({}))"
    with writer.source.block(For(Formula(steps, (parts[0][0],)), target=step, op=op)):
        for part, name in parts:
            enter(writer, block, name, entry(part, step))
        for state, name in _named(f"r{block.idx}s", _states(op, "ex_states")):
            enter(writer, block, name, state)
        results = {key_of(block, name) for name in _states(op, "states") + op.output("outputs")}
        write_forward(writer, tape, lambda kept: append(record, kept, op), results)
        for state, name in _named(f"r{block.idx}s", _states(op, "states")):
            add(Bind(state, writer.local(block, name)))
        for output, name in outputs:
            add(append(output, writer.local(block, name)))
    for output, name in outputs:
        _stack(writer, op, name, output, backwards)
    add(Free(tuple(part for part, _ in parts)))


def _named(prefix: str, variables: Sequence[str]) -> list[tuple[Name, str]]:
    """A local variable for each of the variables."""
    return [(Name(f"{prefix}{index}"), name) for index, name in enumerate(variables)]


def _stack(writer: Writing, op: Operator, name: str, values: Name, backwards: bool) -> None:
    function = writer.source.constant("stack_steps", stack_steps)
    target = writer.local(op.block, name)
    writer.source.add(Call(target, function, (values, backwards), op=op))


@handles("recurrent_grad")
def _recurrent_grad(writer: Writing, op: Operator) -> None:
    """Runs the gradient block for each time step, the last one first."""
    block, add = op.attr("sub_block"), writer.source.add
    record = writer.local(op.block, op.input("step_scopes")[0])
    prefix, step = f"g{block.idx}", Name(f"t{block.idx}")
    count, backwards = Name(f"{prefix}n"), bool(op.attr("reverse"))
    given = list(zip(op.input("outputs"), op.input("outputs" + GRAD), strict=False))
    outputs = _named(f"{prefix}o", [name for name, _ in given])
    initial = zip(op.input("initial_states"), _states(op, "states"), strict=False)
    states = _named(f"{prefix}s", [name for name, _ in initial])
    summed, stepped = gradient_names(op, "parameters"), gradient_names(op, "inputs")
    sums = _named(f"{prefix}p", [name for name, _ in summed])
    parts = _named(f"{prefix}x", [name for name, _ in stepped])
    values = _named(f"{prefix}k", op.attrs.get(STEP_VALUES) or [])
    zeros = writer.source.constant("zeros", torch.zeros_like)
    accumulator = writer.source.constant("Accumulator", Accumulator)
    for (output, _), (_, grad) in zip(outputs, given, strict=True):
        add(Bind(output, writer.local(op.block, grad)))
    for state, name in states:
        add(Bind(state, called(zeros, writer.local(op.block, name))))
    for part, _ in parts + values:
        add(Bind(part, []))
    for one, _ in sums:
        add(Bind(one, called(accumulator)))
    add(Bind(count, Formula("len({})", (record,))))
    with writer.source.block(While(record, op=op)):
        place = "{} - len({})" if backwards else "len({1}) - 1"
        add(Bind(step, Formula(place, (count, record))))
        _give_gradients(writer, op, prefix, step, outputs)
        wanted = [name for name, _ in summed + stepped] + _states(op, "ex_states")
        write_gradient(writer, op, method(record, "pop"), wanted, [name for _, name in values])
        for state, name in _named(f"{prefix}s", _states(op, "ex_states")):
            add(Bind(state, inner_gradient(writer, op, name)))
        for part, name in parts:
            add(append(part, inner_gradient(writer, op, name)))
        for one, name in sums:
            add(Bind(None, method(one, "add", inner_gradient(writer, op, name))))
        for kept, name in values:
            add(append(kept, writer.local(block, name)))
    for (kept, _), outer in zip(values, op.output(STEP_VALUES), strict=True):
        _stack(writer, op, outer, kept, not backwards)
    for (part, _), (_, grad) in zip(parts, stepped, strict=True):
        _stack(writer, op, grad, part, not backwards)
    for state, grad in _named(f"{prefix}s", op.output("initial_states" + GRAD)):
        if grad != EMPTY:
            add(Bind(writer.local(op.block, grad), state))
    for (one, name), (_, grad) in zip(sums, summed, strict=True):
        result = method(one, "result", writer.local(op.block, name), is_rows(op, grad))
        add(Bind(writer.local(op.block, grad), result, op=op))


def _give_gradients(
    writer: Writing, op: Operator, prefix: str, step: Name, outputs: Sequence[tuple[Name, str]]
) -> None:
    """The gradients of the step's outputs and of its states, added where both are one variable."""
    given: dict[str, Tree] = {}
    for outer, name in outputs:
        given[name + GRAD] = Formula("None if {} is None else {}[{}]", (outer, outer, step))
    for state, name in _named(f"{prefix}s", _states(op, "states")):
        grad = name + GRAD
        if grad in given:
            add = writer.source.constant("add_gradients", add_gradients)
            given[grad] = called(add, given[grad], state)
        else:
            given[grad] = state
    for grad, value in given.items():
        enter(writer, op.attr("sub_block"), grad, value)


def _states(op: Operator, name: str) -> list[str]:
    return list(op.attr(name)) if op.attr("has_states") else []


def stack_steps(values: list[Tensor], backwards: bool) -> Tensor:
    """One tensor of the time steps' values, in the order of time. EnforceNotMet without steps."""
    if not values:
        raise EnforceNotMet(
            "its step inputs have no time steps (their first size is 0), so it has no outputs: "
            "feed at least one step"
        )
    return torch.stack(values[::-1] if backwards else values)


def add_gradients(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """The sum of two gradients, of which each may be missing."""
    if first is None or second is None:
        return second if first is None else first
    return first + second
