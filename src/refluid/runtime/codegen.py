"""Writes a block as a straight-line Python function: the plan of the interpreted tier.

    def step(F, C, L):
        v0, v1 = F
        p0 = C[0].value
        v2 = mul(v0, p0)
        ...
        return (v9,), ((),)

One call per operator, attributes as constants, values deleted after their last use. `F` are
the fed tensors and `L` their LoD, `C` the scope's cells of the persistable variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from refluid.analysis.liveness import (
    EMPTY,
    Key,
    in_slots,
    key_of,
    overwritten,
    reads,
    starts_without,
    writes,
)
from refluid.comm import ALONE, Member
from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import as_levels, as_lod
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.runtime import loops, readers, recurrence  # noqa: F401  (they register themselves)
from refluid.runtime.control import CONTROL, FEEDING
from refluid.runtime.handover import own_value
from refluid.runtime.instrument import UNWATCHED, Instruments, Watch
from refluid.runtime.kernels import TORCHS_CHOICE, KernelChoice, Kernels
from refluid.runtime.lods import Lods, has_lod
from refluid.runtime.memory import EAGER, Garbage, Memory
from refluid.runtime.operators import write_operators
from refluid.runtime.order import check_order
from refluid.runtime.pairing import Pair
from refluid.runtime.random import RandomSource
from refluid.runtime.source import Source
from refluid.runtime.tape import Tape
from refluid.runtime.threaded import out_of_order


@dataclass(frozen=True)
class Request:
    """What a plan is made for.

    lends: fetched values are only looked at, so they may be what others hold.
    """

    block: Block
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    device: torch.device
    fed_lods: frozenset[str] = frozenset()
    memory: Memory = EAGER
    comm: Member = ALONE
    threads: int = 1
    instruments: Instruments = UNWATCHED
    kernels: Kernels = TORCHS_CHOICE
    updates_last: bool = True
    compiles: bool = False
    lends: bool = False


@dataclass
class Written:
    """A written plan: its source, the state it needs and what its results are."""

    source: Source
    state: list[str]
    required: set[str]


class Writer:
    """Turns one block into source; sub-blocks are written inline by `control`."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.source = Source("def step(F, C, L):")
        self.source.constants |= {
            "device": request.device,
            "random": RandomSource(request.device),
            "comm": request.comm,
            "own": own_value,
            "as_levels": as_levels,
            "as_lod": as_lod,
        }
        if request.instruments:
            self.source.constants["watch"] = Watch(request)
        self.kernel = KernelChoice(request.device, request.kernels)
        self.names: dict[Key, str] = {}
        self.state: dict[Key, int] = {}
        self.lods = Lods()
        self.ragged = bool(request.fed_lods) or has_lod(request.block.program)
        self.overwritten = overwritten(request.block)
        self.garbage = "garbage0" if request.memory.collects else ""
        self.tapes: dict[int, Tape] = {}
        self.entered: set[Key] = set()
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
        missing = check_order(ops, set(fed), self.is_state)
        self._prologue(ops, fed, missing)
        kept = {key_of(block, name) for name in request.fetches}
        write_operators(self, block, ops, kept | set(self.state))
        written = self._epilogue(block)
        if request.threads > 1 and request.instruments is UNWATCHED:
            written.source = out_of_order(
                written.source, block, self.local, request.threads, request.updates_last
            )
        return written

    def _prologue(self, ops: Sequence[Operator], fed: list[Key], missing: set[Key]) -> None:
        block = self.request.block
        if self.garbage:
            request = self.request
            device = request.device if request.memory.wait else None
            self.source.constants["new_garbage"] = partial(Garbage, request.memory.garbage, device)
            self.source.add(f"{self.garbage} = new_garbage()")
        if fed:
            names = ", ".join(self.local(block, name) for name in self.request.feeds)
            self.source.add(f"{names}{',' if len(fed) == 1 else ''} = F")
        written: set[Key] = set()
        self.required: set[str] = set()
        for op in ops:
            late = starts_without(op)
            for key in in_slots(op, reads(op) - written):
                self._load(key, fed, needed=key not in late, conditional=key in late)
            touched = writes(op) | reads(op) if op.type in CONTROL else writes(op)
            for key in sorted(touched - written):
                self._load(key, fed, needed=False, conditional=op.type in CONTROL)
            written |= writes(op)
        for name in self.request.fetches:
            if self.is_state(block, name):
                self._load(key_of(block, name), fed)
        for key in sorted(missing):
            self.source.add(f"{self.local(self._home(key), key[1])} = None")
        for index, name in enumerate(self.request.feeds):
            if name in self.request.fed_lods:
                self.lods.names[key_of(block, name)] = level = self.lods.new()
                self.source.add(f"{level} = L[{index}]")

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
            if needed and home.vars[name].type != VarType.RAW:
                self.required.add(name)
            if home.vars[name].lod_level:
                self.lods.names[key] = level = self.lods.new()
                self.source.add(f"{level} = as_levels(C[{self.state[key]}].lod)")

    def _epilogue(self, block: Block) -> Written:
        fetches = [key_of(block, name) for name in self.request.fetches]
        for key in fetches:
            if key not in self.names:
                raise EnforceNotMet(
                    f"Cannot fetch {key[1]!r}: it cannot be found in the program, or nothing in "
                    "the program computes it. Fetch a variable of the program that is being run."
                )
        results = ", ".join(
            self.names[key]
            if key in self.fresh or self.request.lends
            else f"own({self.names[key]})"
            for key in fetches
        )
        for key, name in self.lods.names.items():
            if key in self.state:
                self.source.add(f"C[{self.state[key]}].lod = as_lod({name})")
        levels = ", ".join(self.lods.of(key) for key in fetches)
        comma = "," if len(fetches) == 1 else ""
        self.source.add(f"return ({results}{comma}), ({levels}{comma})")
        return Written(self.source, [key[1] for key in self.state], self.required)

    # -- operators ------------------------------------------------------------

    def write_sub_block(self, block: Block, kept: set[Key], pairs: Mapping[int, Pair]) -> None:
        """Writes a block that a loop or a branch runs; `kept` of its variables are used after it.

        What the block reads before anything wrote it starts as None, as in a new scope.
        """
        own = {block.idx, block.forward_block_idx}
        written: set[Key] = set()
        for op in block.ops:
            touched = reads(op) | writes(op) if op.type in CONTROL else reads(op)
            for key in sorted(touched - written):
                home = block.idx == key[0] or (key[0] in own and key not in self.names)
                if home and key not in self.entered:
                    self.source.add(f"{self.local(block, key[1])} = None")
            written |= writes(op)
        outside = {key for op in block.ops for key in reads(op) | writes(op) if key[0] != block.idx}
        write_operators(self, block, block.ops, kept | outside | self.entered, pairs)

    def enter(self, block: Block, name: str, value: str) -> None:
        """Gives a variable of a sub-block the value with which the block starts."""
        self.entered.add(key_of(block, name))
        self.source.add(f"{self.local(block, name)} = {value}")
