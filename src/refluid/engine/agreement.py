"""What trainers in several processes must have alike before they exchange anything."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields

from torch import Tensor

from refluid.comm import Communicator, attendance
from refluid.comm.agreeing import described
from refluid.core.scope import Scope
from refluid.engine.strategy import Strategy
from refluid.ir.program import Program
from refluid.ir.text import print_program
from refluid.ops.effects import Effect
from refluid.ops.registry import facts_of

# What one trainer may have other than another: seeds, constants, and which rows are its own.
_NAMES = r"seed|startup_seed|start_index|starts|ends|value|str_value|bias|\w+_values"
_OWN = re.compile(rf"\b({_NAMES})=(\[[^\]]*\]L?|[^,}}]*)(, )?")
_OWN_OPTIONS = {"trainer_id", "debug_graphviz_path"}


def agree_on_program(
    trainers: Communicator,
    program: Program,
    strategy: Strategy,
    feeds: Sequence[str],
) -> None:
    """EnforceNotMet at all trainers, naming the first difference, where one runs another program.

    Fetches, seeds and constants may differ, and which rows one takes or has of a table.
    """
    trainers.agree([*_lines(feeds), *_options(strategy), *_text(program)])


def number_of(program: Program, feeds: Sequence[str]) -> int:
    """What is the same for all trainers that run this, and hardly for anything else.

    Where each has parameters of its own, with names and sizes of its own, it says what they
    exchange, and no more.
    """
    params = program.global_block().all_parameters()
    own = any(one.is_distributed and not one.split_in for one in params)
    text = _exchanges(program) if own else _text(program)
    return attendance.number_of([*_lines(feeds), *text])


def _exchanges(program: Program) -> Iterator[str]:
    for block in program.blocks:
        for op in block.ops:
            if Effect.COMM in facts_of(op.type).effects:
                kinds = [block.var_recursive(name).dtype.name for name in op.input_arg_names]
                yield " ".join([op.type, *kinds])


def _lines(feeds: Sequence[str]) -> list[str]:
    return ["run", *(f"feeds {one!r}" for one in feeds)]


def _options(strategy: Strategy) -> Iterator[str]:
    for one in fields(strategy):
        value = getattr(strategy, one.name)
        if one.name not in _OWN_OPTIONS:
            shown = sorted(value) if isinstance(value, frozenset) else value
            yield f"has the option {one.name} = {shown!r}"


def _text(program: Program) -> list[str]:
    lines = print_program(program, brief=True).splitlines()
    return [_OWN.sub("", line).replace(", }", "}").strip() for line in lines]


def begin_alike(
    trainers: Communicator, program: Program, scope: Scope, own: Collection[str] = ()
) -> None:
    """Overwrites the program's persistable variables with those of trainer 0, but for those apart.

    own: what each has of its own. EnforceNotMet at all trainers where they have others, or such of
    other shapes.
    """
    names = {var.name for var in program.list_vars() if var.persistable} - scope.apart - set(own)
    held = {name: scope.find_var(name) for name in names}
    values = {
        name: cell.value
        for name, cell in sorted(held.items())
        if cell is not None and isinstance(cell.value, Tensor)
    }
    shown = zip(values, described(list(values.values())), strict=True)
    trainers.agree(["begin with", *(f"{name}: {what}" for name, what in shown)])
    trainers.broadcast(list(values.values()), 0)
