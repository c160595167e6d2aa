"""Which trainer writes which variable: what all have alike once, what differs as each has it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from torch import Tensor

from refluid.core.codec import write_lod_tensor, write_selected_rows
from refluid.core.scope import Cell, Scope
from refluid.core.selected_rows import SelectedRows
from refluid.ir.program import Program

# What a file would hold: its digest and its bytes.
Content = tuple[str, int]


def held(program: Program, scope: Scope) -> dict[str, Cell]:
    """The persistable variables that have a value to be saved, by name."""
    cells = {var.name: scope.find_var(var.name) for var in program.list_vars() if var.persistable}
    kinds = Tensor | SelectedRows
    return {
        name: cell
        for name, cell in sorted(cells.items())
        if cell is not None and isinstance(cell.value, kinds)
    }


def write_cell(cell: Cell, file: BinaryIO) -> None:
    """As Fluid writes a variable."""
    if isinstance(cell.value, SelectedRows):
        write_selected_rows(file, cell.value)
    else:
        write_lod_tensor(file, cell.value, cell.lod)


def content(cell: Cell) -> Content:
    """Of what `write_cell` would write."""
    sink: Any = _Digest()
    write_cell(cell, sink)
    return sink.digest.hexdigest(), sink.size


class _Digest:
    """Takes what is written."""

    def __init__(self) -> None:
        self.digest, self.size = hashlib.sha256(), 0

    def write(self, data: Any) -> int:
        self.digest.update(data)
        count = memoryview(data).nbytes
        self.size += count
        return count


@dataclass
class Shares:
    """writers: who writes the one file of a variable, and its digest.

    own: variables of which each trainer has another value, written by each besides.
    """

    writers: dict[str, tuple[int, str]] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)


def shares_of(everyone: Sequence[Mapping[str, Sequence[Any]]], owners: Mapping[str, int]) -> Shares:
    """Of what each trainer has, by rank, so that each writes about as many bytes.

    owners: whose value of a variable counts, where trainers keep parts of the state each.
    """
    found, loads = Shares(), [0] * len(everyone)
    sizes = {name: int(value[1]) for one in everyone for name, value in one.items()}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        ranks = [rank for rank, one in enumerate(everyone) if name in one]
        if owners.get(name) in ranks:
            ranks = [owners[name]]
        alike = len({everyone[rank][name][0] for rank in ranks}) == 1
        writer = min(ranks, key=lambda rank: (loads[rank], rank)) if alike else ranks[0]
        if not alike:
            found.own.append(name)
        loads[writer] += sizes[name]
        found.writers[name] = writer, str(everyone[writer][name][0])
    return found
