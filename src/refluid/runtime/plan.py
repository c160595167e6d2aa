"""A plan: one program block as a Python function, made once and called each step."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from refluid.analysis.uses import Key
from refluid.core.errors import EnforceNotMet
from refluid.core.lod import Lod
from refluid.core.offsets import Levels, as_lod
from refluid.core.scope import Cell, Scope
from refluid.kernels.collecting import without_collections
from refluid.kernels.settings import record_gradients
from refluid.kernels.watching import LACKING
from refluid.runtime.adaptive import AdaptiveThreads
from refluid.runtime.allocator import first_run
from refluid.runtime.code import Code, PausedRun
from refluid.runtime.codegen import write_plan
from refluid.runtime.layout import laying
from refluid.runtime.memory import EAGER
from refluid.runtime.messages import not_in_scope, not_to_fetch
from refluid.runtime.recorded.tiers import Tiers
from refluid.runtime.request import UNWATCHED, Request
from refluid.runtime.steps import Pause
from refluid.runtime.trees import Name

if TYPE_CHECKING:
    from refluid.runtime.inlined.tiers import InlinedTiers


@dataclass(slots=True)
class Fetched:
    """A fetched value and its LoD (empty for a dense one)."""

    value: Any
    levels: Levels = ()

    @property
    def lod(self) -> Lod:
        """The LoD as users get it."""
        return as_lod(self.levels)


@dataclass(frozen=True)
class Bound:
    """A plan's variables in one scope: all, those that must have a value, those laid out anew."""

    scope: weakref.ref[Scope]
    erasures: int
    cells: list[Cell]
    required: list[Cell]
    laid: list[Cell]


class Plan:
    """Runs `Request.block`: operator by operator in program order, or as recorded from that."""

    @without_collections()
    def __init__(self, request: Request) -> None:
        self.request = request
        self.written = write_plan(request)
        self.code = Code(self.written.source, self.written.variables.names, "plan")
        self._tiers = self._possible_tiers()
        self._laid, self._hold = laying(request.block.ops, request.device, request.kernels.layout)
        self._threads = AdaptiveThreads() if _is_adaptive(request) else None
        self._bound: Bound | None = None
        self._keys: dict[Name, Key] = {}
        self._fresh = True

    def _possible_tiers(self) -> Tiers | InlinedTiers | None:
        """What may stand for the plan's operators: of one thread, unwatched."""
        request = self.request
        pauses = any(isinstance(step, Pause) for step in self.written.source.steps)
        if request.instruments is not UNWATCHED or request.memory != EAGER or request.threads != 1:
            return None
        if not self.written.ragged:
            hints = {"compiles": request.compiles, "in_place": request.memory.in_place}
            return Tiers(self.code, pauses=pauses, **hints)
        if pauses or request.device.type != "cpu" or LACKING:
            return None
        from refluid.runtime.inlined.tiers import InlinedTiers  # few programs have sequences

        return InlinedTiers(self.code, self._declared_sizes)

    def _declared_sizes(self, name: Name) -> Sequence[int] | None:
        """The sizes that the program gives the variable of that name in the plan."""
        if not self._keys:
            self._keys = {one: key for key, one in self.code.names.items()}
        number, variable = self._keys.get(name, (0, ""))
        var = self.request.block.program.blocks[number].vars.get(variable)
        return var.shape if var is not None and var.has_description() else None

    @property
    def text(self) -> str:
        """The plan as Python source."""
        return self.written.source.text

    def stay_interpreted(self) -> None:
        """From now on every run goes through the lines of the operators."""
        self._tiers = None

    def run(
        self, scope: Scope, feeds: Sequence[Tensor], lods: Sequence[Levels] = ()
    ) -> list[Fetched]:
        """Runs one step on the scope. `feeds` in the order of `Request.feeds`.

        Raises EnforceNotMet naming the operator and the user's line when one fails, or the
        variable when a persistable one was never initialised.
        """
        bound = self._bind(scope)
        code = self._code(bound, feeds)
        if self._fresh:
            self._fresh = False
            with first_run(self.request.device):
                return self._step(code, bound, feeds, lods)
        return self._step(code, bound, feeds, lods)

    def _code(self, bound: Bound, feeds: Sequence[Tensor]) -> Code:
        """What runs the step. A recording that fits knows all of its variables."""
        tiers = self._tiers
        code = None if tiers is None else tiers.fitting(feeds, bound.cells)
        if code is not None:
            return code
        for cell in bound.required:
            if cell.value is None:
                raise EnforceNotMet(self._lacks(cell.name))
        self._hold(bound.laid)
        return self.code if tiers is None else tiers.choose(feeds, bound.cells)

    def _lacks(self, name: str) -> str:
        fetched = name in self.request.fetches
        known = self.request.block.find_var_recursive(name) is not None
        return not_to_fetch(name) if fetched and not known else not_in_scope(name)

    def _step(
        self, code: Code, bound: Bound, feeds: Sequence[Tensor], levels: Sequence[Levels]
    ) -> list[Fetched]:
        with_gradients = torch.is_grad_enabled()
        try:
            record_gradients(False)
            if self._threads is None:
                results, found = code.run(feeds, bound.cells, levels)
            else:
                results, found = self._threads.run(code.run, feeds, bound.cells, levels)
        finally:
            record_gradients(with_gradients)
        return [*map(Fetched, results, found)]

    def begin(
        self, scope: Scope, feeds: Sequence[Tensor], lods: Sequence[Levels] = ()
    ) -> PausedRun:
        """Starts a step of a plan that pauses; each start is a step of its own."""
        bound = self._bind(scope)
        return self._code(bound, feeds).begin(feeds, bound.cells, lods)

    @property
    def is_recordable(self) -> bool:
        """Whether a recording can stand for the plan."""
        return isinstance(self._tiers, Tiers)

    def cells(self, scope: Scope) -> list[Cell]:
        """The plan's variables in a scope, in the order of `C`."""
        return self._bind(scope).cells

    def _bind(self, scope: Scope) -> Bound:
        """The plan's variables in this scope, looked up once; persistable ones are made there."""
        bound = self._bound
        if bound is not None and bound.scope() is scope and bound.erasures == scope.erasures:
            return bound
        for var in self.request.block.vars.values():
            if var.persistable and scope.find_var(var.name) is None:
                scope.var(var.name)
        cells = [scope.find_var(name) or scope.var(name) for name in self.written.state]
        required = [cell for cell in cells if cell.name in self.written.required]
        laid = [cell for cell in required if cell.name in self._laid]
        self._bound = Bound(weakref.ref(scope), scope.erasures, cells, required, laid)
        return self._bound


def _is_adaptive(request: Request) -> bool:
    """Whether operators may use fewer threads: on the CPU, one by one, unwatched."""
    computes = request.device.type == "cpu" and not request.lends
    return computes and request.threads == 1 and request.instruments is UNWATCHED
