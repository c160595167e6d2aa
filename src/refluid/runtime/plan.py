"""A plan: one program block as a Python function, made once and called each step."""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.runtime.codegen import Request, Writer
from refluid.runtime.failure import explain
from refluid.runtime.messages import not_in_scope
from refluid.runtime.scope import Cell, Scope

_numbers = itertools.count()
Lod = list[list[int]]


@dataclass(frozen=True)
class Fetched:
    """A fetched value and its LoD (empty for a dense one)."""

    value: Any
    lod: Lod


class Plan:
    """The interpreted tier: runs `Request.block` operator by operator in program order."""

    def __init__(self, request: Request) -> None:
        self.request = request
        writer = Writer(request)
        self.written = writer.write()
        self._names = writer.names
        self.filename = f"<refluid plan {next(_numbers)}>"
        text = self.written.source.text
        linecache.cache[self.filename] = (len(text), None, text.splitlines(True), self.filename)
        weakref.finalize(self, linecache.cache.pop, self.filename, None)
        namespace = dict(self.written.source.constants)
        exec(compile(text, self.filename, "exec"), namespace)
        self._step = namespace["step"]
        self._bound: tuple[weakref.ref[Scope], int, list[Cell], list[Cell]] | None = None

    @property
    def text(self) -> str:
        """The plan as Python source."""
        return self.written.source.text

    def run(self, scope: Scope, feeds: Sequence[Tensor], lods: Sequence[Lod] = ()) -> list[Fetched]:
        """Runs one step on the scope. `feeds` in the order of `Request.feeds`.

        Raises EnforceNotMet naming the operator and the user's line when one fails, or the
        variable when a persistable one was never initialised.
        """
        cells, required = self._cells(scope)
        for cell in required:
            if cell.value is None:
                raise EnforceNotMet(not_in_scope(cell.name))
        try:
            with torch.no_grad():
                results = self._step(feeds, cells)
        except Exception as error:
            clear = explain(error, self.filename, self.written.source.origin, self._names)
            if clear is error:
                raise
            raise clear from error
        for name, index in self.written.state_lods.items():
            scope.var(name).lod = [list(level) for level in lods[index]]
        return [
            Fetched(value, lods[lod] if lod is not None else [])
            for value, lod in zip(results, self.written.fetch_lods, strict=True)
        ]

    def _cells(self, scope: Scope) -> tuple[list[Cell], list[Cell]]:
        bound = self._bound
        if bound is not None and bound[0]() is scope and bound[1] == scope.erasures:
            return bound[2], bound[3]
        cells = [scope.find_var(name) or scope.var(name) for name in self.written.state]
        by_name = {cell.name: cell for cell in cells}
        required = [by_name[name] for name in self.written.required]
        self._bound = weakref.ref(scope), scope.erasures, cells, required
        return cells, required
