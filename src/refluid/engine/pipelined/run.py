"""A pipeline of processes: each runs one stage of a program, on micro-batches one after the other.

While a stage is at one micro-batch its neighbours are at others. By 1F1B a stage goes backward as
soon as it can, so that it keeps the activations of few micro-batches; by F-then-B it goes forward
with all of them first. The numbers are those of the whole batch in one process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from refluid.comm import Communicator
from refluid.comm.world import attendance
from refluid.core.errors import EnforceNotMet, EOFException
from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.core.selected_rows import SelectedRows
from refluid.engine.agreement import begin_alike
from refluid.engine.group import Group
from refluid.engine.pipelined.micro_batches import MicroBatches, samples
from refluid.engine.pipelined.step import StageStep
from refluid.engine.prepare import Wanted, prepared
from refluid.engine.strategy import Strategy
from refluid.passes.pipeline_stages import Stage, variables
from refluid.runtime.allocator import end_step
from refluid.runtime.plan import Fetched

_DENSE: frozenset[str] = frozenset()
# Tags of messages: whether there are data; of parameters that several stages have, parts of
# gradients, and values.
_WORD, _PARTS, _WEIGHTS = 0, 3, 4


@dataclass(frozen=True)
class PipelineMembers:
    """everyone: all processes. pipe: the stages of this pipeline, by number.

    alike: those at this stage in all pipelines, who average gradients. updating: the stages of this
    pipeline that have parameters; None at one that has none.
    """

    everyone: Communicator
    pipe: Communicator
    alike: Communicator
    updating: Communicator | None


class StageGroup(Group):
    """One place, where operators that exchange something do so among `members`."""

    def __init__(self, place: Place, members: Communicator) -> None:
        super().__init__([place])
        self._exchanging = members

    @property
    def trainers(self) -> Communicator:
        """Those members."""
        return self._exchanging


class PipelineRun:
    """Runs a stage in one scope.

    told: what all processes must have alike. scopes: the scope, as of `Replicated`.
    """

    def __init__(
        self,
        stage: Stage,
        micro: MicroBatches,
        strategy: Strategy,
        place: Place,
        members: PipelineMembers,
        scope: Scope,
        told: Sequence[str],
    ) -> None:
        self.stage, self.micro, self.strategy = stage, micro, strategy
        self.members, self.scope, self.scopes, self.places = members, scope, [scope], [place]
        self._device = place.device
        self._passes = StageGroup(place, members.alike)
        self._updates = StageGroup(place, members.updating or members.alike)
        members.everyone.agree(["train by a pipeline", repr(micro), *told])
        reads = members.everyone.all_gather(torch.tensor([stage.reading is not None]))
        self._readers = [rank for rank, one in enumerate(reads) if bool(one)]
        self._drop_others()
        if members.alike.size > 1:
            begin_alike(members.alike, stage.passes, scope)
        self._exchange_weights()

    def run(self, feed: Any, fetches: tuple[str, ...]) -> list[list[Fetched | None]]:
        """One step, all micro-batches and then the updates; None for what other stages compute.

        feed: a mapping with the whole batch. EOFException at all stages where the reader of one
        is at its end before a whole step was read.
        """
        self._drop_others()
        batches = self._batches(_mapping(feed))
        known, updated = variables(self.stage.passes), variables(self.stage.update)
        within = [name for name in fetches if name in known]
        step = StageStep(
            self.stage, self.members.pipe, self._passes, self.strategy, self.scope, within
        )
        waiting = iter(batches)
        with torch.no_grad():
            for forward in self.micro.turns(self.stage.number, self.stage.count):
                if forward:
                    step.forward(next(waiting))
                else:
                    step.backward()
            late = tuple(one for one in fetches if one not in known and one in updated)
            found = {**step.fetched, **self._update(step.gradients, late)}
        end_step(self._device)
        there = attendance()
        if there is not None and there.watch is not None:
            there.watch(sum(samples(next(iter(one.values()))) for one in batches if one))
        return [[found.get(name)] for name in fetches]

    def computes(self, name: str) -> bool:
        """Whether a variable is among what this stage computes or has."""
        return name in self.stage.names

    def _drop_others(self) -> None:
        """Only their stages have the values of others' variables, also after files were loaded."""
        for name in self.stage.of_others:
            cell = self.scope.find_var(name)
            if cell is not None and isinstance(cell.value, Tensor):
                cell.value = None

    # -- data -------------------------------------------------------------------------------------

    def _batches(self, feed: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What each micro-batch is fed here, and reads."""
        taken = variables(self.stage.passes)
        own = {name: value for name, value in feed.items() if name in taken}
        found = self.micro.cut(own, self.stage.passes)
        for batch, read in zip(found, self._read(), strict=True):
            batch.update(read)
        return found

    def _read(self) -> list[dict[str, Any]]:
        """The micro-batches that this stage reads; all learn whether there are enough."""
        stage, everyone = self.stage, self.members.everyone
        found: list[dict[str, Any]] = [{} for _ in range(self.micro.steps)]
        ended = None
        if stage.reading is not None:
            wanted = Wanted(stage.reading, (), stage.read, self.strategy, self._passes)
            plan = prepared(wanted).step(_DENSE)
            try:
                for batch in found:
                    batch.update(zip(stage.read, plan.run(self.scope, ()), strict=True))
            except EOFException as error:
                ended = error
            for other in range(everyone.size):
                if other != everyone.rank:
                    everyone.send([torch.tensor([ended is None])], other, _WORD)
        words = [everyone.take(1, one, _WORD) for one in self._readers if one != everyone.rank]
        if ended is not None:
            raise ended
        if not all(bool(word) for (word,) in words):
            raise EOFException("There is no next data: the reader of a stage is at its end.")
        return found

    # -- updates ----------------------------------------------------------------------------------

    def _update(self, sums: Mapping[str, Any], fetches: tuple[str, ...]) -> dict[str, Fetched]:
        """Updates by the gradients of all micro-batches and pipelines; what was fetched of it."""
        grads, pipe = self._of_all_pipelines(sums), self.members.pipe
        for other, names in self.stage.partial.goes.items():
            pipe.send([_dense(name, grads[name]) for name in names], other, _PARTS)
        for other, names in self.stage.partial.comes.items():
            parts = (one.to(self._device) for one in pipe.take(len(names), other, _PARTS))
            grads |= dict(zip(names, parts, strict=True))
        program, found = self.stage.update, list[Fetched]()
        if program.global_block().ops:
            fed = tuple(name for name in grads if name in variables(program))
            wanted = Wanted(program, fed, fetches, self.strategy, self._updates)
            values, plan = [grads[name] for name in fed], prepared(wanted).step(_DENSE)
            if not all(isinstance(one, Tensor) for one in values):
                plan.stay_interpreted()  # recordings are fed tensors
            found = plan.run(self.scope, values, [()] * len(fed))
        self._exchange_weights()
        return dict(zip(fetches, found, strict=True))

    def _of_all_pipelines(self, sums: Mapping[str, Any]) -> dict[str, Any]:
        """Gradients summed over all pipelines; each has divided its own by their number."""
        alike = self.members.alike
        if alike.size == 1:
            return dict(sums)
        dense = {name: one.clone() for name, one in sums.items() if isinstance(one, Tensor)}
        alike.all_reduce(list(dense.values()))
        found: dict[str, Any] = {}
        for name, one in sums.items():
            rows = [] if name in dense else alike.all_gather(one)
            parts = [part for part in rows if isinstance(part, SelectedRows)]
            found[name] = dense[name] if name in dense else SelectedRows.sum(parts)
        return found

    def _exchange_weights(self) -> None:
        """Parameters of several stages become what the first of them has."""
        pipe, weights = self.members.pipe, self.stage.weights
        for other, names in weights.goes.items():
            pipe.send([self._value(name) for name in names], other, _WEIGHTS)
        for other, names in weights.comes.items():
            for name, value in zip(names, pipe.take(len(names), other, _WEIGHTS), strict=True):
                self.scope.var(name).value = value.to(self._device)

    def _value(self, name: str) -> Tensor:
        cell = self.scope.find_var(name)
        if cell is None or not isinstance(cell.value, Tensor):
            raise EnforceNotMet(f"{name!r} has no value: run the startup program first")
        return cell.value


def _mapping(feed: Any) -> Mapping[str, Any]:
    if isinstance(feed, list | tuple) and len(feed) == 1:
        feed = feed[0]
    if feed is not None and not isinstance(feed, Mapping):
        raise TypeError(f"feed requires dict as its Parameter. But you passed in {type(feed)}")
    return feed or {}


def _dense(name: str, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    raise EnforceNotMet(
        f"{name!r} is rows of the gradient of a parameter that several stages have: build its "
        "lookups with is_sparse=False"
    )
