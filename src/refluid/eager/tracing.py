"""What ran at once, as a program: the operators of a call, with the parameters that they took."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from refluid.build import apply
from refluid.eager.backend import Eager, Ran, several
from refluid.eager.parameter import ParamBase
from refluid.eager.tensor import VarBase
from refluid.ir.block import Block
from refluid.ir.program import Program


@dataclass
class Traced:
    """A program, and the variables that it was made of.

    feeds, fetches: names. held: the parameters and constants, which keep their values.
    """

    program: Program
    feeds: list[str]
    fetches: list[str]
    held: list[VarBase]


@contextmanager
def recorded(backend: Eager) -> Iterator[list[Ran]]:
    """The operators that run within the `with`."""
    former, backend.ran = backend.ran, []
    try:
        yield backend.ran
    finally:
        backend.ran = former


def trace(backend: Eager, call: Callable[[], Any], inputs: Sequence[VarBase]) -> tuple[Any, Traced]:
    """What a call gives, and the program that it ran. The first size of what is fed is free."""
    with recorded(backend) as ran:
        outputs = call()
    results = [one for one in several(outputs) if isinstance(one, VarBase)]
    program = Program()
    block = program.global_block()
    held: dict[int, VarBase] = {}
    known = {id(one): one for one in inputs}
    for one in inputs:
        free = [-1, *one.shape[1:]] if one.shape else []
        block.create_var(name=one.name, shape=free, dtype=one.dtype, is_data=True)
    for step in ran:
        for var in step.inputs():
            if id(var) not in known:
                known[id(var)] = held[id(var)] = var
                _declare(block, var)
        for var in step.outputs():
            if id(var) not in known:
                known[id(var)] = var
                block.create_var(name=var.name, dtype=var.dtype)
        apply(step.type, _names(step.given), _names(step.made), step.attrs, block=block)
    feeds, fetches = [one.name for one in inputs], [one.name for one in results]
    return outputs, Traced(program, feeds, fetches, [*held.values()])


def _declare(block: Block, var: VarBase) -> None:
    if isinstance(var, ParamBase) and var.trainable:
        block.create_parameter(name=var.name, shape=var.shape, dtype=var.dtype)
    else:
        block.create_var(name=var.name, shape=var.shape, dtype=var.dtype, persistable=True)


def _names(slots: Sequence[tuple[str, Sequence[VarBase]]]) -> dict[str, list[str]]:
    return {slot: [var.name for var in variables] for slot, variables in slots}
