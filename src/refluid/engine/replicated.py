"""A program on several places at once: the batch split, gradients exchanged, results combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refluid.comm import ALONE, Communicator
from refluid.comm.world import all_have_data
from refluid.core.bounds import MOST_PLACES, whole_number
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import as_lod
from refluid.core.places import CUDAPlace, Place
from refluid.core.scope import Scope
from refluid.engine.attending import together
from refluid.engine.conditions import shares_parameters, stage_of
from refluid.engine.exchanging import by_strategy, optimized
from refluid.engine.group import Group
from refluid.engine.notices import announce, drawing, ignored, warn
from refluid.engine.prepare import DENSE, Prepared, Wanted, find, prepared
from refluid.engine.replica_scopes import replica_scopes
from refluid.engine.splitting import split_feed
from refluid.engine.strategy import EXECUTION, GradientScaleStrategy, Strategy
from refluid.ir.program import Program
from refluid.runtime.allocator import end_step, release
from refluid.runtime.batched.together import ReplicaResults


class Replicated:
    """Replicas of a program, each with its variables; replica 0 uses the scope of the user.

    Parameters of the other replicas are copies, made once. In Reduce mode on CPU all replicas
    share the parameters and optimizer states, and each updates its own part of them.
    shared: replicas of another program, whose threads and variables these use. trainers: the
    processes that have such replicas each; all begin with the variables of the first.
    """

    def __init__(
        self,
        program: Program,
        loss: str | None,
        strategy: Strategy,
        places: Sequence[Place],
        scope: Scope,
        shared: Replicated | None,
        trainers: Communicator = ALONE,
    ) -> None:
        whole_number("the number of places", len(places), MOST_PLACES, 1)
        devices = [place.device for place in places]
        if trainers.size == 1 and shares_parameters(strategy, devices):
            from refluid.engine.lone_updates import without_races  # few programs share them

            strategy = without_races(program, strategy)
        self.program, self.loss, self.strategy = program, loss, strategy
        self.group: Group = (
            shared.group if shared else _group(program, strategy, places, scope, trainers)
        )
        self.places = self.group.places
        self.iterations = strategy.num_iteration_per_run
        self.runs_until_drop = max(1, strategy.num_iteration_per_drop_scope)
        self.runs = 0
        self._announced = False
        if self.iterations < 1:
            raise EnforceNotMet(f"num_iteration_per_run is 1 or more, not {self.iterations}")
        warn(ignored(strategy, EXECUTION.values()))

    @property
    def scopes(self) -> list[Scope]:
        """The variables of each replica."""
        return self.group.scopes

    @property
    def resolved(self) -> dict[str, Any]:
        """Options that Fluid resolves when a program is compiled, as users see them then."""
        on_gpu = any(isinstance(place, CUDAPlace) for place in self.places)
        threads = self.strategy.num_threads or len(self.places) * (4 if on_gpu else 2)
        return {"num_threads": threads, "use_cuda": on_gpu}

    @property
    def is_alone(self) -> bool:
        """Whether it is one replica in one process, and a run one step with its own gradients."""
        one = len(self.places) == 1 and self.group.trainers.size == 1 and self.iterations == 1
        usual = GradientScaleStrategy.CoeffNumDevice
        return one and int(self.strategy.gradient_scale_strategy) == usual

    def run(self, feed: Any, fetches: tuple[str, ...]) -> ReplicaResults:
        """One step, or num_iteration_per_run of them; for each fetch all replicas' values, by rank.

        Several steps have the same feed, and the fetches are those of the last.
        feed: a mapping whose arrays are split along dimension 0 (the first replicas get the
        remainder), or one mapping per replica; where nothing is trained there may be fewer, and as
        many values. Raises EnforceNotMet where there are fewer rows, or mappings in training, than
        replicas; ValueError for a name that the program doesn't have.
        """
        ready = None
        if isinstance(feed, Mapping):
            ready = find(self._wanted(tuple(feed), fetches))
        results = self._run_whole(ready, feed)
        if results is None:
            results = self._run_split(ready, feed, fetches)
            if isinstance(feed, list | tuple) and len(feed) < len(self.places):
                results = [values[: len(feed)] for values in results]
        self.runs += 1
        for device in set(self.group.devices):
            end_step(device)
            if self.runs % self.runs_until_drop == 0:
                release(device)
        return results

    def _run_whole(self, ready: Prepared | None, feed: Any) -> ReplicaResults | None:
        """The batched step with the batch as it is, where there is one."""
        step = None if ready is None or self.iterations > 1 else ready.steps.get(DENSE)
        if ready is None or step is None or not step.is_batched or ready.outlasting:
            return None
        values = []
        for slot in ready.slots[0]:
            value = slot.whole(feed[slot.name], len(self.places))
            if value is None:
                return None
            values.append(value)
        found: ReplicaResults | None = step.run_whole(values)
        return found

    def _run_split(
        self, ready: Prepared | None, feed: Any, fetches: tuple[str, ...]
    ) -> ReplicaResults:
        feeds = split_feed(feed, self.program, len(self.places))
        ready = ready or self._prepared(tuple(feeds[0]), fetches)
        values = [
            [slot.convert(one[slot.name]) for slot in slots]
            for slots, one in zip(ready.slots, feeds, strict=True)
        ]
        tensors = [[tensor for tensor, _ in fed] for fed in values]
        lods = [[lod for _, lod in fed] for fed in values]
        with_lod = frozenset(
            name for fed in lods for name, lod in zip(ready.feeds, fed, strict=True) if lod
        )
        step, scopes = ready.step(with_lod), self.group.scopes
        for number in ready.outlasting:
            for scope, fed in zip(scopes, values, strict=True):
                cell = scope.var(ready.feeds[number])
                value, lod = fed[number]
                cell.value, cell.lod = value, as_lod(lod)
        results: ReplicaResults = []
        for _ in range(self.iterations):
            results = together(
                ready, scopes, lambda: step.run(scopes, tensors, lods), tensors[0], len(tensors)
            )
        return results

    def _wanted(self, fed: tuple[str, ...], fetches: tuple[str, ...]) -> Wanted:
        return Wanted(self.program, fed, fetches, self.strategy, self.group, self.loss)

    def _prepared(self, fed: tuple[str, ...], fetches: tuple[str, ...]) -> Prepared:
        wanted = self._wanted(fed, fetches)
        if self._announced:
            return prepared(wanted)
        ready = prepared(wanted, drawing(self.strategy))
        announce(self.program, ready.settings[0], ready.rewritten[0])
        self._announced = True
        return ready

    def close(self) -> None:
        """Ends the replicas' threads."""
        if self.group.replicas is not None:
            self.group.replicas.close()


def _group(
    program: Program,
    strategy: Strategy,
    places: Sequence[Place],
    scope: Scope,
    trainers: Communicator,
) -> Group:
    shares = trainers.size == 1 and shares_parameters(strategy, [place.device for place in places])
    shared = optimized(program) if shares else ()
    if trainers.size > 1:
        from refluid.engine.agreement import begin_alike  # most programs have one trainer

        all_have_data("begin to train a program")
        begin_alike(trainers, program, scope)
    scopes = replica_scopes(scope, program, places, shared)
    stage = stage_of(strategy, trainers.size, len(places))
    reached = by_strategy(trainers, strategy, stage, places[0].device)
    if stage:
        from refluid.engine.shares import leave_to_owners

        leave_to_owners(program, scope, reached, stage)
    return Group(places, scopes, reached)
