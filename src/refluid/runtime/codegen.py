"""Writes a block as a straight-line Python function: the plan of the interpreted tier.

    def step(F, C):
        v0, v1 = F
        p0 = C[0].value
        v2 = mul(v0, p0)
        ...
        return v9,

One call per operator, attributes as constants, values deleted after their last use. `F` are
the fed tensors, `C` the scope's cells of the persistable variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from refluid.core.errors import EnforceNotMet, OperatorNotImplemented
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ops.registry import find
from refluid.ops.signature import GRAD
from refluid.runtime.batching import batches
from refluid.runtime.calls import How, write_batch, write_call
from refluid.runtime.control import CONTROL, FEEDING
from refluid.runtime.liveness import (
    EMPTY,
    Key,
    key_of,
    last_uses,
    reads,
    views_to_copy,
    writes,
)
from refluid.runtime.messages import not_initialized
from refluid.runtime.ownership import Ownership
from refluid.runtime.pairing import pair_gradients
from refluid.runtime.random import RandomSource
from refluid.runtime.source import Source


@dataclass(frozen=True)
class Request:
    """What a plan is made for."""

    block: Block
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    device: torch.device
    fed_lods: frozenset[str] = frozenset()
    free_early: bool = True


@dataclass
class Written:
    """A written plan: its source, the state it needs and what its results are."""

    source: Source
    state: list[str]
    required: set[str]
    fetch_lods: list[int | None]
    state_lods: dict[str, int] = field(default_factory=dict)


class Writer:
    """Turns one block into source; sub-blocks are written inline by `control`."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.source = Source("def step(F, C):")
        self.source.constants |= {
            "device": request.device,
            "random": RandomSource(request.device),
            "own": _own,
        }
        self.names: dict[Key, str] = {}
        self.state: dict[Key, int] = {}
        self.lods: dict[Key, int] = {}
        self.fresh: set[Key] = set()
        self.fed: set[Key] = set()

    # -- variables ------------------------------------------------------------

    def is_state(self, block: Block, name: str) -> bool:
        """Whether the value lives in the scope beyond the run."""
        var = block.find_var_recursive(name)
        return var is not None and var.persistable

    def local(self, block: Block, name: str) -> str:
        """The Python name of a variable."""
        if name == EMPTY:
            return "None"
        key = key_of(block, name)
        if key not in self.names:
            letter = "p" if self.is_state(block, name) else "v"
            self.names[key] = f"{letter}{len(self.names)}"
        return self.names[key]

    # -- the function ---------------------------------------------------------

    def write(self) -> Written:
        """The whole function."""
        block, request = self.request.block, self.request
        ops = [op for op in block.ops if op.type not in FEEDING]
        fed = [key_of(block, name) for name in request.feeds]
        self.fed = set(fed)
        missing = self._check_order(ops, set(fed))
        self._prologue(ops, fed, missing)
        kept = {key_of(block, name) for name in request.fetches}
        self.write_ops(block, ops, kept | set(self.state))
        return self._epilogue(block, fed)

    def _check_order(self, ops: Sequence[Operator], known: set[Key]) -> set[Key]:
        """Raises where an operator needs what nobody made; returns optional gaps."""
        gaps: set[Key] = set()
        for op in ops:
            definition = find(op.type)
            if definition is None and op.type not in CONTROL:
                raise OperatorNotImplemented(
                    f"refluid has no operator {op.type!r}.\n" + "\n".join(op.callstack)
                )
            for slot, names in op.inputs.items():
                for name in names:
                    key = key_of(op.block, name)
                    if name == EMPTY or key in known or self.is_state(op.block, name):
                        continue
                    if GRAD not in name and op.type not in CONTROL:
                        raise EnforceNotMet(not_initialized(op, slot, name))
                    gaps.add(key)
            known |= writes(op)
        return gaps

    def _prologue(self, ops: Sequence[Operator], fed: list[Key], missing: set[Key]) -> None:
        block = self.request.block
        if fed:
            names = ", ".join(self.local(block, name) for name in self.request.feeds)
            self.source.add(f"{names}{',' if len(fed) == 1 else ''} = F")
        written: set[Key] = set()
        self.required: set[str] = set()
        for op in ops:
            for key in sorted(reads(op) - written):
                self._load(key, fed)
            written |= writes(op) if op.type not in CONTROL else set()
            for key in sorted(writes(op)):
                self._load(key, fed, needed=False, conditional=op.type in CONTROL)
        for name in self.request.fetches:
            if self.is_state(block, name):
                self._load(key_of(block, name), fed)
        for key in sorted(missing):
            self.source.add(f"{self.local(self._home(key), key[1])} = None")
        for index, name in enumerate(self.request.feeds):
            if name in self.request.fed_lods:
                self.lods[key_of(block, name)] = index

    def _home(self, key: Key) -> Block:
        return self.request.block.program.blocks[key[0]]

    def _load(
        self, key: Key, fed: list[Key], *, needed: bool = True, conditional: bool = False
    ) -> None:
        home, name = self._home(key), key[1]
        if not self.is_state(home, name):
            if conditional and key not in self.names:
                self.source.add(f"{self.local(home, name)} = None")
            return
        if key in self.state:
            return
        self.state[key] = len(self.state)
        if key in fed:
            self.source.add(f"C[{self.state[key]}].value = {self.local(home, name)}")
        elif needed or conditional:
            self.source.add(f"{self.local(home, name)} = C[{self.state[key]}].value")
            if needed:
                self.required.add(name)

    def _epilogue(self, block: Block, fed: list[Key]) -> Written:
        fetches = [key_of(block, name) for name in self.request.fetches]
        for key in fetches:
            if key not in self.names:
                raise EnforceNotMet(
                    f"Cannot fetch {key[1]!r}: it cannot be found in the program, or nothing in "
                    "the program computes it. Fetch a variable of the program that is being run."
                )
        results = ", ".join(
            self.names[key] if key in self.fresh else f"own({self.names[key]})" for key in fetches
        )
        self.source.add(f"return ({results}{',' if len(fetches) == 1 else ''})")
        return Written(
            self.source,
            [key[1] for key in self.state],
            self.required,
            [self.lods.get(key) for key in fetches],
            {key[1]: lod for key, lod in self.lods.items() if key in self.state},
        )

    # -- operators ------------------------------------------------------------

    def write_ops(self, block: Block, ops: Sequence[Operator], kept: set[Key]) -> None:
        """Writes operators in order, and frees what none of the later ones uses."""
        last = last_uses(ops)
        copies = views_to_copy(ops, last, kept)
        pairs = pair_gradients(ops)
        groups = batches(ops)
        owned = Ownership(ops, last, kept | self.fed, pairs)
        batched = {index for group in groups.values() for index in group}
        for position, op in enumerate(ops):
            if position in groups:
                write_batch(self, [ops[index] for index in groups[position]])
            elif position in batched:
                continue
            elif op.type in CONTROL:
                CONTROL[op.type](self, op)
            else:
                how = How(pairs.get(position), owned.reusable(op, position), position in copies)
                write_call(self, op, how)
            if self.request.free_early:
                self._free(block, ops, groups.get(position, [position]), last, kept)

    def _free(
        self,
        block: Block,
        ops: Sequence[Operator],
        done: Sequence[int],
        last: dict[Key, int],
        kept: set[Key],
    ) -> None:
        dead = {
            key
            for position in done
            for key in reads(ops[position]) | writes(ops[position])
            if last[key] in done and key not in kept and key[0] == block.idx
        }
        names = sorted(self.names[key] for key in dead if key in self.names)
        if names:
            self.source.add(f"del {', '.join(names)}")


def _own(value: Any) -> Any:
    """A copy of a tensor that the scope or the user also holds."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def write_plan(request: Request) -> Written:
    """The source of a plan for `request`."""
    return Writer(request).write()
