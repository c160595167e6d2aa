"""Checks what a script passes to the backward pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from refluid.ir.block import Block
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable


def check_loss(loss: Any) -> None:
    """TypeError unless it is a Variable. Of what shape it is only optimizers ask, as in Fluid."""
    if not isinstance(loss, Variable):
        raise TypeError(
            "The type of 'loss' in fluid.backward.append_backward must be "
            f"fluid.framework.Variable, but received {type(loss).__name__}."
        )
    of_a_program("append_backward", loss)


def of_a_program(call: str, var: Variable) -> None:
    """TypeError for a value of dygraph."""
    if var.block is None:
        raise TypeError(
            f"fluid.backward.{call} appends to a program, and {var.name!r} is a value of dygraph: "
            "call minimize, or fluid.dygraph.grad, within fluid.dygraph.guard()"
        )


def as_names(argument: str, values: Any) -> list[str]:
    """Names of variables given as variables or names; TypeError for other things."""
    if not isinstance(values, set | frozenset | list | tuple):
        raise TypeError(
            f"The type of '{argument}' must be a set, list or tuple of Variable or str, "
            f"but received {type(values).__name__}."
        )
    for value in values:
        if not isinstance(value, str | Variable):
            raise TypeError(
                f"'{argument}' must hold Variable or str, but it holds {type(value).__name__}."
            )
    return [value if isinstance(value, str) else value.name for value in values]


def names_without_gradient(no_grad_set: Any) -> set[str]:
    """The names that a script passes as `no_grad_set`."""
    return set() if no_grad_set is None else set(as_names("no_grad_set", no_grad_set))


def checked_callbacks(callbacks: Any) -> list[Any]:
    """The functions that a script passes as `callbacks`; TypeError for other things."""
    if callbacks is None:
        return []
    if not isinstance(callbacks, list | tuple) or not all(callable(one) for one in callbacks):
        raise TypeError(
            "The type of 'callbacks' in fluid.backward.append_backward must be a list of "
            f"functions that are called with (block, context), but received {callbacks!r}."
        )
    return list(callbacks)


def stopped_variables(block: Block, without: Iterable[str]) -> set[str]:
    """Names that mean, in this block, a variable that shall have no gradient."""
    outer = block.parent
    found = set(without) if outer is None else stopped_variables(outer, without)
    for var in block.vars.values():
        if var.stop_gradient:
            found.add(var.name)
        elif outer is not None:
            found.discard(var.name)
    return found.union(without)


def wanted_parameters(program: Program, parameter_list: Any) -> list[Variable]:
    """The given parameters, or all trainable ones in the order in which they were made.

    Raises ValueError for a parameter that the program doesn't have.
    """
    block = program.global_block()
    if parameter_list is None:
        return [var for var in block.iter_parameters() if var.trainable]
    names = as_names("parameter_list", parameter_list)
    for name in names:
        if name not in block.vars:
            known = ", ".join(one.name for one in block.iter_parameters())
            raise ValueError(
                f"parameter_list names {name!r}, which the program doesn't have; "
                f"its parameters are: {known}"
            )
    return [block.vars[name] for name in names]


def require_trainable(loss: Variable, parameters: Iterable[Variable]) -> None:
    """Raises ValueError, saying which parameters exist and why none is reached."""
    block = loss.block.program.global_block()
    every = [var for var in block.iter_parameters() if isinstance(var, Parameter)]
    frozen = [var.name for var in every if var.stop_gradient or not var.trainable]
    raise ValueError(
        f"no gradient can be computed: loss {loss.name!r} depends on no variable that wants one. "
        f"Parameters asked for: {[var.name for var in parameters]}; of all parameters, frozen "
        f"(trainable=False or stop_gradient): {frozen}. Is the loss computed from the network's "
        "output, and is no stop_gradient set on the way?"
    )
