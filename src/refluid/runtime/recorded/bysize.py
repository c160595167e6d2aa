"""Recordings for sizes that change all the time: one for all that call the same kernels."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from refluid.core.scope import Cell
from refluid.runtime.code import Code
from refluid.runtime.recorded.fitting import Meta, Recorded, meta
from refluid.runtime.recorded.graph import Kernel
from refluid.runtime.recorded.record import Refused, StepRecording
from refluid.runtime.recorded.simplify import by_panels, simplify
from refluid.runtime.recorded.table import Table, sizes_of
from refluid.runtime.recorded.text import Text
from refluid.runtime.steps import Bind
from refluid.runtime.trees import FED, ROW, Formula, entry

_log = logging.getLogger("refluid")

# So many tables are kept, and so many sizes in all of them together.
TABLES, SIZES = 16, 4096


class BySize(Recorded):
    """A recording that fits feeds of every size that has a row in its table."""

    def __init__(
        self, code: Code, feeds: Sequence[Tensor], cells: Sequence[Cell], table: Table
    ) -> None:
        super().__init__(code, feeds, cells)
        self._types = [feed.dtype for feed in feeds]
        self._rows = table.rows

    def _fits_feeds(self, feeds: Sequence[Tensor]) -> bool:
        if sizes_of(feeds) not in self._rows:
            return False
        types = zip(feeds, self._types, strict=True)
        return all(feed.dtype == kind and feed.is_contiguous() for feed, kind in types)


class Tables:
    """The tables of one plan, each with the recording that is written of it: `made`."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._tables: dict[Any, list[Table]] = {}
        self._written: dict[Table, BySize] = {}
        self._closed = False

    @property
    def made(self) -> list[BySize]:
        """What stands for the sizes of each table."""
        return list(self._written.values())

    @property
    def sizes(self) -> int:
        """How many sizes have a row."""
        return sum(len(one.rows) for one in self._written)

    def wants(self, feeds: Sequence[Tensor]) -> bool:
        """Whether a step with these feeds is worth recording."""
        return not self._closed and all(feed.is_contiguous() for feed in feeds)

    def add(
        self, recording: StepRecording, feeds: Sequence[Tensor], cells: Sequence[Cell]
    ) -> BySize:
        """Takes one more size; what serves it from now on."""
        recording = replace(recording, steps=by_panels(recording.steps))
        structure = _structure(recording, feeds, cells)
        for table in self._tables.setdefault(structure, []):
            try:
                changed = table.add(recording, sizes_of(feeds))
            except Refused as reason:
                _log.debug("%s gets a table of its own: %s", list(sizes_of(feeds)), reason)
                continue
            break
        else:
            table, changed = Table(recording, sizes_of(feeds)), True
            self._tables[structure].append(table)
        if changed:
            self._written[table] = self._write(table, feeds, cells)
        if len(self._written) == TABLES:
            self.close("it does something else for too many sizes")
        elif self.sizes == SIZES:
            self.close("there are too many sizes")
        return self._written[table]

    def close(self, reason: str) -> None:
        """No more recordings are wanted."""
        _log.info("steps of further sizes are interpreted: %s", reason)
        self._closed = True

    def _write(self, table: Table, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> BySize:
        text = Text(self._code.source.constants)
        if len(table.rows) > 1:
            rows = text.to.source.constant("rows", table.rows)
            shapes = (Formula("{}.shape", (entry(FED, place),)) for place in range(len(feeds)))
            text.to.add(Bind(ROW, entry(rows, tuple(shapes))))
        recording = table.recording
        steps, names = simplify(recording.steps), recording.names_of(self._code)
        _log.info("recorded a step for feeds of shapes %s", table)
        return BySize(Code(text.write(steps), names, "recording"), feeds, cells, table)


def _structure(
    recording: StepRecording, feeds: Sequence[Tensor], cells: Sequence[Cell]
) -> tuple[Any, ...]:
    """What recordings in one table have in common for sure: another where code chooses by size."""
    steps = [one.func if isinstance(one, Kernel) else one.step for one in recording.steps]
    types = [feed.dtype for feed in feeds]
    state: list[Meta] = [meta(cell.value) for cell in cells]
    return tuple(steps), tuple(types), tuple(state)
