"""A program on several places at once: the batch parted, gradients exchanged, results joined."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from refluid.core import flags
from refluid.core.bounds import MOST_PLACES, whole_number
from refluid.core.errors import EnforceNotMet
from refluid.core.places import CUDAPlace, Place
from refluid.engine.exchanging import optimized, require_loss_gradient
from refluid.engine.explaining import explained
from refluid.engine.feeds import FeedSlot, feed_slots
from refluid.engine.notices import ignored, warn
from refluid.engine.replica_rewriting import ReplicaRewriting
from refluid.engine.replica_scopes import replica_scopes, updates_variables
from refluid.engine.splitting import split_feed
from refluid.engine.strategy import EXECUTION, Strategy
from refluid.ir.program import Program
from refluid.runtime.allocator import end_step, release
from refluid.runtime.instrument import instruments
from refluid.runtime.joined.joined import Joined, Results
from refluid.runtime.joined.shared import Shared
from refluid.runtime.kernels import asked_for
from refluid.runtime.memory import Memory, memory_as_set
from refluid.runtime.plan import Fetched, Plan
from refluid.runtime.replicas import Replicas
from refluid.runtime.request import Request
from refluid.runtime.scope import Scope

_PLANS = 64

# No variable is fed with LoD.
_DENSE: frozenset[str] = frozenset()

# Slots of each replica; a function from the names fed with LoD to plans; those it made so far.
Prepared = tuple[list[tuple[FeedSlot, ...]], Any, dict[Any, Any]]


class Replicated:
    """Replicas of a program, each with its variables; replica 0 uses the scope of the user.

    Parameters of the other replicas are copies, made once. In Reduce mode on CPU all replicas
    share the parameters and optimizer states, and each updates its own part of them.
    """

    def __init__(
        self,
        program: Program,
        loss: str | None,
        strategy: Strategy,
        places: Sequence[Place],
        scope: Scope,
        shared: Replicated | None,
    ) -> None:
        whole_number("the number of places", len(places), MOST_PLACES, 1)
        self.program, self.places, self.loss = program, list(places), loss
        self.strategy = strategy
        self._devices = {place.device for place in self.places}
        self.threads = max(1, strategy.num_threads // len(places))
        if strategy.enable_sequential_execution:
            self.threads = 1
        self._rewriting = ReplicaRewriting(program, strategy, self.places, loss, self.threads)
        self.replicas: Replicas = shared.replicas if shared else Replicas(len(places))
        self.scopes: list[Scope] = shared.scopes if shared else self._scopes(scope)
        self._held: Shared = shared._held if shared else Shared()
        self.iterations = strategy.num_iteration_per_run
        self.runs_until_drop = max(1, strategy.num_iteration_per_drop_scope)
        self.runs = 0
        if self.iterations < 1:
            raise EnforceNotMet(f"num_iteration_per_run is 1 or more, not {self.iterations}")
        warn(ignored(strategy, EXECUTION.values()))
        self._recent: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[Any, Prepared]] = {}
        self._plans: OrderedDict[Any, tuple[list[tuple[FeedSlot, ...]], dict[Any, Any]]]
        self._plans = OrderedDict()

    # -- variables ------------------------------------------------------------

    def _scopes(self, scope: Scope) -> list[Scope]:
        shared = optimized(self.program) if self._rewriting.sharing else ()
        return replica_scopes(scope, self.program, self.places, shared)

    @property
    def resolved(self) -> dict[str, Any]:
        """Options that Fluid resolves when a program is compiled, as users see them then."""
        on_gpu = any(isinstance(place, CUDAPlace) for place in self.places)
        threads = self.strategy.num_threads or len(self.places) * (4 if on_gpu else 2)
        return {"num_threads": threads, "use_cuda": on_gpu}

    # -- running --------------------------------------------------------------

    def run(self, feed: Any, fetches: tuple[str, ...]) -> Results:
        """One step, or num_iteration_per_run of them; for each fetch all replicas' values, by rank.

        Several steps have the same feed, and the fetches are those of the last.
        feed: a mapping whose arrays are parted along dimension 0 (the first replicas get the
        remainder), or one mapping per replica. Raises EnforceNotMet where there are fewer rows,
        or mappings, than replicas; ValueError for a name that the program doesn't have.
        """
        results = self._run_whole(feed, fetches)
        if results is None:
            results = self._run_parted(feed, fetches)
        self.runs += 1
        for device in self._devices:
            end_step(device)
            if self.runs % self.runs_until_drop == 0:
                release(device)
        return results

    def _run_whole(self, feed: Any, fetches: tuple[str, ...]) -> Results | None:
        """The joined step with the batch as it is, where there is one."""
        if not isinstance(feed, Mapping) or self.iterations > 1:
            return None
        ready = self._recent.get((tuple(feed), fetches))
        if ready is None or ready[0] != self._now():
            return None
        slots, _, plans = ready[1]
        _, joined = plans.get(_DENSE, (None, None))
        if joined is None or not joined.is_used:
            return None
        values = []
        for slot in slots[0]:
            value = slot.whole(feed[slot.name], len(self.places))
            if value is None:
                return None
            values.append(value)
        found: Results | None = joined.run_whole(values)
        return found

    def _run_parted(self, feed: Any, fetches: tuple[str, ...]) -> Results:
        feeds = split_feed(feed, self.program, len(self.places))
        slots, plans, _ = self._prepared(tuple(feeds[0]), fetches)
        values = [
            [slot.convert(feeds[rank][slot.name]) for slot in slots[rank]]
            for rank in range(len(self.places))
        ]
        with_lod = frozenset(
            slot.name
            for rank, found in enumerate(values)
            for slot, (_, lod) in zip(slots[rank], found, strict=True)
            if lod
        )
        ready, joined = plans(with_lod)
        return self._stepped(ready, joined, values)

    def _stepped(
        self, plans: list[Plan], joined: Joined | None, values: list[list[tuple[Any, Any]]]
    ) -> Results:
        """All steps of one run: joined where that is possible, else each replica in its thread."""
        tensors = [[tensor for tensor, _ in fed] for fed in values]
        lods = [[lod for _, lod in fed] for fed in values]

        def step(rank: int) -> list[Fetched]:
            return plans[rank].run(self.scopes[rank], tensors[rank], lods[rank])

        results: Results = []
        for _ in range(self.iterations):
            found = joined.run(tensors) if joined is not None else None
            if found is not None:
                results = found
            elif len(plans) == 1:
                results = [[fetched] for fetched in step(0)]
            else:
                if self._held and updates_variables(self.program):
                    self._held.separate()
                results = list(zip(*self.replicas.run(step), strict=True))
        return results

    # -- preparation ----------------------------------------------------------

    def _now(self) -> tuple[Any, ...]:
        """What plans are made for, apart from their feeds and fetches."""
        return flags.state(), self.program.change_count, instruments()

    def _prepared(self, fed: tuple[str, ...], fetches: tuple[str, ...]) -> Prepared:
        found, now = self._recent.get((fed, fetches)), self._now()
        if found is None or found[0] != now:
            with explained(self.program, fed):
                found = now, self._prepare(fed, fetches)
            if len(self._recent) == _PLANS:
                self._recent.clear()
            self._recent[fed, fetches] = found
        return found[1]

    def _prepare(self, fed: tuple[str, ...], fetches: tuple[str, ...]) -> Prepared:
        memories = [self._memory(place) for place in self.places]
        watched, rewritten = instruments(), self._rewriting.programs
        programs = rewritten((*fed, *fetches), bool(watched), memories[0].optimize)
        kernels = asked_for(self.strategy.mkldnn_enabled_op_types)
        key = (self.program.change_count, fed, fetches, tuple(memories), watched, kernels)
        if key not in self._plans:
            require_loss_gradient(programs[0], self.strategy, self.loss, fed)
            slots = [
                feed_slots(program, dict.fromkeys(fed), place.device)
                for program, place in zip(programs, self.places, strict=True)
            ]
            self._plans[key] = (slots, {})
            if len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
        slots, plans = self._plans[key]

        def requests(programs: list[Program], with_lod: frozenset[str]) -> list[Request]:
            return [
                Request(
                    programs[rank].global_block(),
                    tuple(slot.name for slot in slots[rank]),
                    fetches,
                    place.device,
                    with_lod,
                    memories[rank],
                    self.replicas.group.member(rank),
                    self.threads,
                    watched,
                    kernels,
                    self.strategy.enable_backward_optimizer_op_deps,
                    self._compiles,
                )
                for rank, place in enumerate(self.places)
            ]

        def of(with_lod: frozenset[str]) -> tuple[list[Plan], Joined | None]:
            if with_lod not in plans:
                joined = None
                if not with_lod and not watched and self._joinable:
                    kept, optimize = (*fed, *fetches), memories[0].optimize
                    whole = requests(rewritten(kept, False, optimize, owning=False), with_lod)
                    joined = Joined(whole, self.scopes, self.replicas, self._held)
                with explained(self.program, fed):
                    made = [Plan(one) for one in requests(programs, with_lod)]
                plans[with_lod] = made, joined
            found: tuple[list[Plan], Joined | None] = plans[with_lod]
            return found

        return slots, of, plans

    @property
    def _compiles(self) -> bool:
        return self.strategy.compiles

    @property
    def _joinable(self) -> bool:
        """Whether the replicas may run as one step of one thread."""
        on_cpu = all(place.device.type == "cpu" for place in self.places)
        return on_cpu and len(self.places) > 1 and self.threads == 1 and not self._compiles

    def _memory(self, place: Place) -> Memory:
        wanted = self.strategy
        return memory_as_set(
            place.device, in_place=wanted.enable_inplace, optimize=wanted.memory_optimize
        )

    def close(self) -> None:
        """Ends the replicas' threads."""
        self.replicas.close()
