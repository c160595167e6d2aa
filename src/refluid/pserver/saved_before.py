"""A folder that a user loads for a server before it begins: its tables and slices come later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from refluid.core.errors import EnforceNotMet
from refluid.ir.variable import Variable
from refluid.pserver.saved_files import saved_in
from refluid.pserver.server_programs import ServerSide, own_name, row_state


@dataclass
class SavedBefore:
    """What was asked to be loaded. folder: the last one, which the server begins with."""

    side: ServerSide
    folder: Path | None = None

    def take(self, folder: Path, variables: Iterable[Variable]) -> list[Variable]:
        """Remembers the folder; the variables in it that are neither slices nor tables.

        EnforceNotMet where it lacks a parameter.
        """
        saved, layout = saved_in(folder), self.side.layout
        names = [*(one.name for one in layout.dense), *(one.name for one in layout.sparse)]
        lacks = [name for name in names if not saved.has(name)]
        if lacks:
            raise EnforceNotMet(
                f"{folder} has no {', '.join(lacks)}: servers begin with what save_persistables of "
                "a trainer, or of the same network in one process, left there"
            )
        self.folder, later = folder, self._later()
        return [one for one in variables if one.name not in later and saved.has(one.name)]

    def _later(self) -> set[str]:
        """The names of what only the server itself can take its part of."""
        updates, layout = self.side.updates, self.side.layout
        found = {
            own_name(param, part, name)
            for param in layout.dense
            for part in param.slices
            for name in (param.name, *updates[param.name].state)
        }
        for table in layout.sparse:
            found |= {table.name, *row_state(updates[table.name])}
        return found
