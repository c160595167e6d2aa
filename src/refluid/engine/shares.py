"""The state of a program that trainers own in shares: each holds its own."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch

from refluid.comm import Communicator
from refluid.comm.sharded import Sharing
from refluid.core.dtypes import to_torch
from refluid.core.scope import Scope
from refluid.ir.program import Program
from refluid.passes.data_parallel import balance, gradient_block
from refluid.passes.ownership import owners_of


def sharded_state(program: Program, shares: int, stage: int) -> Mapping[str, int]:
    """The variables that have owners, and the share of each; parameters from stage 3 on."""
    found = owners_of(program, shares)
    if stage >= 3:
        return found
    params = balance(gradient_block(program), shares)
    return {name: share for name, share in found.items() if name not in params}


def leave_to_owners(program: Program, scope: Scope, comm: Communicator, stage: int) -> None:
    """Drops the values that other trainers own from the scope of this one.

    From stage 3 on programs that aren't trained borrow the parameters that they read.
    """
    assert isinstance(comm, Sharing)
    for name, share in sharded_state(program, comm.shares, stage).items():
        cell = scope.find_var(name)
        if cell is not None and share != comm.share:
            cell.value = None
    if stage >= 3:
        scope.borrow = partial(_borrowed, program, scope, comm, stage)


@contextmanager
def _borrowed(
    trained: Program, scope: Scope, comm: Communicator, stage: int, program: Program
) -> Iterator[None]:
    """Within the block the scope holds what a program reads; all trainers must run it."""
    ops = (op for block in program.blocks for op in block.ops)
    read = frozenset(name for op in ops for name in op.input_arg_names)
    borrow, scope.borrow = scope.borrow, None
    try:
        with whole(trained, scope, comm, stage, read):
            yield
    finally:
        scope.borrow = borrow


@contextmanager
def whole(
    program: Program,
    scope: Scope,
    comm: Communicator,
    stage: int,
    wanted: Container[str] | None = None,
) -> Iterator[None]:
    """Within the block the scope holds what other trainers own too; all must enter it.

    wanted: of these variables, None for all.
    """
    if not stage or not isinstance(comm, Sharing):
        yield
        return
    state = sharded_state(program, comm.shares, stage)
    there = (name for name in state if scope.find_var(name) is not None)
    names = sorted(name for name in there if wanted is None or name in wanted)
    if not names:
        yield
        return
    block = program.global_block()
    given, taken = [], {}
    for name in names:
        if state[name] == comm.share:
            given.append(scope.var(name).value)
        else:
            var = block.var_recursive(name)
            taken[name] = torch.empty(tuple(var.shape), dtype=to_torch(var.dtype))
    comm.spread(given, list(taken.values()), [state[name] for name in names], wait=True)
    for name, value in taken.items():
        scope.var(name).value = value
    try:
        yield
    finally:
        for name in taken:
            scope.var(name).value = None
