"""Which server holds what of a job: slices of dense parameters, and tables of rows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.rows.draws import RowDraws
from refluid.pserver.ring import owners_of, stable_hash


class TrainingMode(IntEnum):
    """How trainers and servers wait for each other, numbered as in programs."""

    SYNC = 0
    ASYNC = 1
    HALF_ASYNC = 2
    GEO = 3


@dataclass(frozen=True)
class DenseSlice:
    """Rows `begin` to before `end` of a dense parameter, on one server, where it has that name."""

    name: str
    begin: int
    end: int
    server: int


@dataclass(frozen=True)
class DenseParameter:
    """A parameter of which servers have slices and trainers a copy; `gradient` updates it."""

    name: str
    gradient: str
    shape: tuple[int, ...]
    dtype: str
    slices: tuple[DenseSlice, ...]


@dataclass(frozen=True)
class SparseParameter:
    """A table whose rows are on the servers, by their ids.

    height: as the program declares it. draws: how the row of an id begins. entry: who gets a row
    (`row_policies.py`). on_disk: it must be there.
    """

    name: str
    gradient: str
    height: int
    width: int
    dtype: str
    draws: RowDraws
    entry: str = ""
    on_disk: bool = False


@dataclass(frozen=True)
class JobLayout:
    """Servers (`host:port`), how many trainers there are, and what is where.

    A server keeps its number for good; in the place of one that is gone is no address. epoch: how
    often servers came or went. founders: how many there were first, unless all of `servers` are.
    """

    servers: tuple[str, ...]
    trainers: int
    mode: TrainingMode
    dense: tuple[DenseParameter, ...]
    sparse: tuple[SparseParameter, ...]
    epoch: int = 0
    founders: int = 0

    @cached_property
    def job(self) -> int:
        """A number that processes of this job have in common, and those of another job lack.

        Wherever the servers are: a job goes on from its checkpoints on other hosts, and while
        servers come and go.
        """
        founders = self.founders or len(self.servers)
        told = described(self) | {"servers": founders, "founders": 0, "epoch": 0}
        for one in told["dense"]:
            for part in one["slices"]:
                del part["server"]
        return stable_hash(json.dumps(told, sort_keys=True, default=str))

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Those of the servers that are there."""
        return tuple(number for number, address in enumerate(self.servers) if address)

    @property
    def keeper(self) -> int:
        """The server that knows best which servers there are: the first."""
        return self.numbers[0]

    @cached_property
    def owners(self) -> Tensor:
        """The server of each part of the ids, int16 [PARTS]: its number, wherever it is."""
        numbers = torch.tensor(self.numbers, dtype=torch.int16)
        return numbers[owners_of([str(number) for number in self.numbers]).long()]

    @cached_property
    def dense_bytes(self) -> int:
        """What all dense parameters take."""
        sizes = (getattr(torch, one.dtype).itemsize * math.prod(one.shape) for one in self.dense)
        return sum(sizes)

    @cached_property
    def dense_of(self) -> dict[str, DenseParameter]:
        """Dense parameters by the names of their gradients."""
        return {one.gradient: one for one in self.dense}

    @cached_property
    def sparse_of(self) -> dict[str, SparseParameter]:
        """Tables by the names of their gradients."""
        return {one.gradient: one for one in self.sparse}

    @cached_property
    def tables(self) -> dict[str, SparseParameter]:
        """Tables by their own names."""
        return {one.name: one for one in self.sparse}


def described(layout: JobLayout) -> dict[str, Any]:
    """All of a layout as JSON has it."""
    return asdict(layout) | {"mode": int(layout.mode)}


def layout_of(told: Mapping[str, Any]) -> JobLayout:
    """The layout that was described. KeyError, TypeError or ValueError for anything else."""
    dense, sparse = [], []
    for one in told["dense"]:
        slices = tuple(DenseSlice(**part) for part in one["slices"])
        dense.append(DenseParameter(**one | {"slices": slices, "shape": tuple(one["shape"])}))
    for one in told["sparse"]:
        sparse.append(SparseParameter(**one | {"draws": RowDraws(**one["draws"])}))
    servers, mode = tuple(told["servers"]), TrainingMode(told["mode"])
    when = int(told["epoch"]), int(told["founders"])
    return JobLayout(servers, int(told["trainers"]), mode, tuple(dense), tuple(sparse), *when)


Dispatch = Callable[[Sequence[str]], Sequence[int]]


def in_turn(servers: int) -> Dispatch:
    """Deals slices to servers one after the other."""
    dealt = 0

    def deal(names: Sequence[str]) -> Sequence[int]:
        nonlocal dealt
        first, dealt = dealt, dealt + len(names)
        return [(first + number) % servers for number in range(len(names))]

    return deal


def row_ranges(shape: Sequence[int], most: int, least: int) -> list[tuple[int, int]]:
    """Rows of a parameter in at most `most` ranges, of at least `least` elements each."""
    total, height = math.prod(shape), shape[0] if shape else 1
    row = max(1, total // max(1, height))
    count = min(most, max(1, total // max(1, least)))
    rows = max(1, math.ceil(math.ceil(total / count) / row))
    return [(begin, min(begin + rows, height)) for begin in range(0, height, rows)]
