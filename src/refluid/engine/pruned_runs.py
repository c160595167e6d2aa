"""Runs of the part of a program that is fetched, as `use_prune` asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refluid.engine.fetches import fetch_names
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.passes.prune import prune

_Update = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class _Pruning:
    """What a program is pruned to. updates: operators, by type and outputs."""

    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    updates: tuple[_Update, ...]

    def __call__(self, program: Program) -> Program:
        told = [_told(op) for op in program.global_block().ops]
        if not set(self.updates) <= set(told):
            return program  # a block of its own holds them, as where gradients are merged
        places = {place for place, one in enumerate(told) if one in self.updates}
        return prune(program, self.fetches, self.feeds, places)


def _told(op: Operator) -> _Update:
    return op.type, tuple(op.output_arg_names)


def part(program: Program, feed: Any, fetch_list: Any, updates: Sequence[Operator]) -> Program:
    """The program with just the operators that the fetches and updates need of what is fed.

    It is made once for what is fed, fetched and updated. Trainers of servers run their whole
    program: it pushes and pulls.
    """
    if program._servers is not None:
        return program
    fed = feed[0] if isinstance(feed, list | tuple) and feed else feed
    told = tuple(map(_told, updates))
    return program.derived(_Pruning(tuple(fed or ()), fetch_names(fetch_list), told))
