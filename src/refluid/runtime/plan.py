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
from refluid.core.offsets import as_levels, as_lod
from refluid.runtime.codegen import Request, Writer
from refluid.runtime.failure import explain
from refluid.runtime.layout import channels_last_state, hold_channels_last
from refluid.runtime.messages import not_in_scope
from refluid.runtime.scope import Cell, Scope

_numbers = itertools.count()
Lod = list[list[int]]


@dataclass(frozen=True)
class Fetched:
    """A fetched value and its LoD (empty for a dense one)."""

    value: Any
    lod: Lod


@dataclass(frozen=True)
class Bound:
    """A plan's variables in one scope: all, those that must have a value, those channels-last."""

    scope: weakref.ref[Scope]
    erasures: int
    cells: list[Cell]
    required: list[Cell]
    channels_last: list[Cell]


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
        watch, step = namespace.get("watch"), namespace["step"]
        self._step = step if watch is None else watch.around(step)
        self._channels_last = channels_last_state(request.block.ops)
        self._bound: Bound | None = None

    @property
    def text(self) -> str:
        """The plan as Python source."""
        return self.written.source.text

    def run(self, scope: Scope, feeds: Sequence[Tensor], lods: Sequence[Lod] = ()) -> list[Fetched]:
        """Runs one step on the scope. `feeds` in the order of `Request.feeds`.

        Raises EnforceNotMet naming the operator and the user's line when one fails, or the
        variable when a persistable one was never initialised.
        """
        bound = self._bind(scope)
        for cell in bound.required:
            if cell.value is None:
                raise EnforceNotMet(not_in_scope(cell.name))
        hold_channels_last(bound.channels_last)
        try:
            with torch.no_grad():
                results, found = self._step(feeds, bound.cells, [as_levels(lod) for lod in lods])
        except Exception as error:
            clear = explain(error, self.filename, self.written.source.origin, self._names)
            if clear is error:
                raise
            raise clear from error
        return [
            Fetched(value, as_lod(levels)) for value, levels in zip(results, found, strict=True)
        ]

    def _bind(self, scope: Scope) -> Bound:
        """The plan's variables in this scope, looked up once."""
        bound = self._bound
        if bound is not None and bound.scope() is scope and bound.erasures == scope.erasures:
            return bound
        cells = [scope.find_var(name) or scope.var(name) for name in self.written.state]
        required = [cell for cell in cells if cell.name in self.written.required]
        channels_last = [cell for cell in required if cell.name in self._channels_last]
        self._bound = Bound(weakref.ref(scope), scope.erasures, cells, required, channels_last)
        return self._bound
