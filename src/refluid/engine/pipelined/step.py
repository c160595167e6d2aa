"""The micro-batches of one step at one stage: forward, backward, and what crosses to others."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.comm import Communicator
from refluid.core.errors import EnforceNotMet
from refluid.core.scope import Scope
from refluid.core.selected_rows import SelectedRows
from refluid.engine.feeds import feed_slots
from refluid.engine.group import Group
from refluid.engine.pipelined.micro_batches import as_one
from refluid.engine.prepare import Prepared, Wanted, prepared
from refluid.engine.strategy import Strategy
from refluid.passes.pipeline_stages import ByStage, Stage
from refluid.runtime.plan import Fetched

# Tags of messages between stages.
_FORWARD, _BACKWARD = 1, 2


class Sums:
    """Gradients of all micro-batches, added up: tensors, or rows of tables."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._own: set[str] = set()

    def add(self, name: str, value: Any) -> None:
        """Adds one micro-batch's."""
        before = self.values.get(name)
        if before is None:
            self.values[name] = value
        elif isinstance(value, SelectedRows):
            self.values[name] = SelectedRows.sum([before, value])
        elif name in self._own:
            before.add_(value)
        else:  # the first one may be the memory of others too
            self.values[name] = before + value
            self._own.add(name)


class StageStep:
    """Goes forward with micro-batches, and backward with them in the same order.

    pipe: the stages. fetches: variables of the stage that are wanted of each micro-batch.
    """

    def __init__(
        self,
        stage: Stage,
        pipe: Communicator,
        group: Group,
        strategy: Strategy,
        scope: Scope,
        fetches: Sequence[str],
    ) -> None:
        self._stage, self._pipe, self._group = stage, pipe, group
        self._strategy, self._scope = strategy, scope
        self._device: torch.device = group.devices[0]
        self._under_way: deque[tuple[Any, Prepared]] = deque()
        self._fetched: dict[str, list[Fetched]] = {name: [] for name in fetches}
        self._sums = Sums()

    @property
    def gradients(self) -> Mapping[str, Any]:
        """Sums over the micro-batches, by name."""
        return self._sums.values

    @property
    def fetched(self) -> dict[str, Fetched]:
        """What was fetched, of all micro-batches as one."""
        block = self._stage.passes.global_block()
        return {name: as_one(got, block.vars[name].shape) for name, got in self._fetched.items()}

    def forward(self, batch: Mapping[str, Any]) -> None:
        """Goes forward with a micro-batch that was fed or read here."""
        stage = self._stage
        fed = {name: self._converted(name, value) for name, value in batch.items()}
        fed |= {name: (one, ()) for name, one in self._taken(stage.forward.comes, _FORWARD)}
        ready = self._prepared(tuple(fed))
        tensors, lods = zip(*(fed[one] for one in ready.feeds), strict=True) if fed else ((), ())
        ragged = frozenset(name for name, lod in zip(ready.feeds, lods, strict=True) if lod)
        begun = ready.step(ragged).begin(self._scope, tensors, lods)
        values, levels = begun.start()
        goes = stage.forward.goes
        names = dict.fromkeys(name for several in goes.values() for name in several)
        made = zip(values, levels, strict=True)
        self._send(dict(zip(names, made, strict=True)), goes, _FORWARD)
        self._under_way.append((begun, ready))

    def backward(self) -> None:
        """Goes backward with the micro-batch that has waited the longest."""
        begun, ready = self._under_way.popleft()
        given = tuple(one for _, one in self._taken(self._stage.backward.comes, _BACKWARD))
        values, levels = begun.finish(given)
        made = dict(zip(ready.fetches, zip(values, levels, strict=True), strict=True))
        self._send(made, self._stage.backward.goes, _BACKWARD)
        for name in self._stage.gradients:
            self._sums.add(name, made[name][0])
        for name, found in self._fetched.items():
            found.append(Fetched(*made[name]))

    def _prepared(self, fed: tuple[str, ...]) -> Prepared:
        stage = self._stage
        gives = (name for names in stage.backward.goes.values() for name in names)
        wanted = tuple(dict.fromkeys([*stage.gradients, *gives, *self._fetched]))
        return prepared(Wanted(stage.passes, fed, wanted, self._strategy, self._group))

    def _converted(self, name: str, value: Any) -> tuple[Any, Any]:
        if isinstance(value, Fetched):
            return value.value, value.levels
        (slot,) = feed_slots(self._stage.passes, [name], self._device)
        return slot.convert(value)

    def _send(self, made: Mapping[str, Any], goes: ByStage, tag: int) -> None:
        for other, names in goes.items():
            self._pipe.send([_sendable(name, *made[name]) for name in names], other, tag)

    def _taken(self, comes: ByStage, tag: int) -> Iterator[tuple[str, Tensor]]:
        for other, names in comes.items():
            for name, one in zip(names, self._pipe.take(len(names), other, tag), strict=True):
                yield name, one.to(self._device)


def _sendable(name: str, value: Any, levels: Any) -> Tensor:
    if isinstance(value, Tensor) and not levels:
        return value
    kind = "has LoD" if levels else f"is of type {type(value).__name__}"
    raise EnforceNotMet(
        f"{name!r} {kind}, and stages of a pipeline send each other dense tensors only: have what "
        "reads it on the stage that makes it"
    )
