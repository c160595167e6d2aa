"""`prepare`: makes a step that can be run of a program, what is fed and what is fetched.

The program is rewritten by all passes that are wanted; each replica gets a plan; the step runs the
plan, or the plans in threads, or batches them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from refluid.comm.world import all_have_data
from refluid.core.threads import use_operator_threads
from refluid.engine.conditions import Conditions
from refluid.engine.exchanging import require_loss_gradient
from refluid.engine.explaining import explained
from refluid.engine.feeds import FeedSlot, feed_slots
from refluid.engine.group import Group
from refluid.engine.pipeline import Rewritten, rewrite
from refluid.engine.reading import NextLookups, ReadingStep, reads_first, without_reads
from refluid.engine.setting import Setting
from refluid.engine.strategy import Strategy
from refluid.ir.program import Program
from refluid.kernels.collecting import without_collections
from refluid.ops.effects import Effect
from refluid.ops.registry import facts_of
from refluid.runtime.plan import Plan
from refluid.runtime.request import Request

Seen = Callable[[str, Program], None]
# What is fed with a LoD where nothing is.
DENSE: frozenset[str] = frozenset()


class RunnableStep(Protocol):
    """One step of a program. For replicas scope, feeds, LoDs and results are lists by rank."""

    def run(self, scope: Any, feeds: Any, lods: Any = ()) -> Any:
        """Runs it with tensors in the order of the feed slots; what was fetched."""


class Wanted(NamedTuple):
    """A program for certain feeds and fetches, by a strategy, where a group runs.

    loss: the variable that replicas differentiate. inference: without gradients, updates and
    learning-rate schedules.
    """

    program: Program
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    strategy: Strategy
    group: Group
    loss: str | None = None
    inference: bool = False


class Prepared:
    """What is wanted, under certain conditions. seen: as of `rewrite`."""

    def __init__(self, wanted: Wanted, now: Conditions, seen: Seen | None = None) -> None:
        self.program, self.feeds, self.fetches = wanted.program, wanted.feeds, wanted.fetches
        self.group, self.loss, self.inference = wanted.group, wanted.loss, wanted.inference
        self.conditions, self._seen = now, seen
        self.slots: list[tuple[FeedSlot, ...]] = []
        self.steps: dict[frozenset[str], Any] = {}
        self.active: dict[int, Any] = {}  # by how many training threads: which of them train
        self._idle: defaultdict[frozenset[str], list[Plan]] = defaultdict(list)

    def add_slots(self) -> None:
        """Makes the feed slots of each replica; a name that the program lacks is warned of."""
        programs = [self.program]
        if not self.conditions.alone:
            programs = [one.program for one in self.rewritten]
            require_loss_gradient(programs[0], self.conditions.strategy, self.loss, self.feeds)
        self.slots = [
            feed_slots(program, self.feeds, device)
            for program, device in zip(programs, self.group.devices, strict=True)
        ]
        self.feeds = tuple(slot.name for slot in self.slots[0])

    @cached_property
    def outlasting(self) -> tuple[int, ...]:
        """Which of the fed variables keep their values after a run."""
        known = self.program.global_block().vars
        return tuple(
            number
            for number, name in enumerate(self.feeds)
            if name in known and known[name].persistable
        )

    # -- programs -------------------------------------------------------------

    @cached_property
    def settings(self) -> list[Setting]:
        """What the passes are told, by replica."""
        return self._settings(owning=True)

    def _settings(self, *, owning: bool) -> list[Setting]:
        now, kept = self.conditions, frozenset((*self.feeds, *self.fetches))
        return [
            Setting(
                now.strategy,
                kept,
                device,
                as_written=bool(now.watched),
                attends=now.attends and device.type == "cpu",
                finds_rows=now.finds_rows and device.type == "cpu",
                saves=now.memories[0].optimize,
                threads=now.threads,
                loss=self.loss,
                replicas=1 if now.alone else now.replicas,
                rank=now.trainer * len(now.devices) + rank,
                shares=now.shares,
                owning=owning,
                inference=self.inference,
                stage=0 if now.alone else now.stage,
                sends=now.trainers > 1,
                overlaps=now.overlaps and now.trainers > 1,
            )
            for rank, device in enumerate(now.devices)
        ]

    @cached_property
    def rewritten(self) -> list[Rewritten]:
        """The program of each replica."""
        with without_collections(), explained(self.program, self.feeds):
            return rewrite(self.program, self.settings, self._seen)

    @cached_property
    def number(self) -> int:
        """By which trainers tell this from other steps; 0 where it exchanges nothing with them."""
        if self.conditions.trainers == 1:
            return 0
        if not self._has(Effect.COMM):
            return 0
        from refluid.engine.agreement import number_of  # most have one trainer

        return number_of(self.program, self.feeds)

    @cached_property
    def acts_outside(self) -> bool:
        """Whether steps exchange something with others, or call what is the user's."""
        return self._has(Effect.COMM) or self._has(Effect.HOST)

    def _has(self, effect: Effect) -> bool:
        program = self.rewritten[0].program
        ops = (op for block in program.blocks for op in block.ops)
        return any(effect in facts_of(op.type).effects for op in ops)

    # -- steps ----------------------------------------------------------------

    def step(self, lods: frozenset[str]) -> Any:
        """The step where the variables of these names are fed with LoD."""
        found = self.steps.get(lods)
        if found is None:
            found = self.steps[lods] = self._step(lods)
        return found

    def plans(self, lods: frozenset[str], *, lends: bool = False) -> list[Plan]:
        """Plans that nobody else uses, by replica. lends: as of `Request`."""
        rewritten = self.rewritten
        if self.conditions.alone:
            use_operator_threads()
        with explained(self.program, self.feeds):
            return [Plan(one) for one in self._requests(rewritten, lods, lends=lends)]

    @contextmanager
    def plan(self, lods: frozenset[str]) -> Iterator[Plan]:
        """A plan that nobody else uses meanwhile; the next who asks gets it again."""
        idle = self._idle[lods]
        try:
            plan = idle.pop()
        except IndexError:  # a thread that looked before may find that another one took it
            plan = self.plans(lods)[0]
        yield plan
        idle.append(plan)

    def _step(self, lods: frozenset[str]) -> Any:
        now, group = self.conditions, self.group
        if now.alone and not now.watched and reads_first(self.program):
            return self._reading_step(lods)
        if group.replicas is None:
            return self.plans(lods)[0]
        from refluid.engine.replica_step import ReplicaStep  # most programs run in one place

        batched = None
        if now.batches and not lods:
            from refluid.runtime.batched.replicas import BatchedReplicas

            whole = self.rewritten
            if self.settings[0].reduces:  # batched replicas make all updates
                whole = rewrite(self.program, self._settings(owning=False))
            requests = self._requests(whole, lods)
            batched = BatchedReplicas(requests, group.scopes, group.replicas, group.held)
        plans: list[Any] = self.plans(lods)
        if now.threads > 1 and len(plans) == now.trainers == 1 and not now.watched:
            from refluid.runtime.either_order import EitherOrder  # few ask for it

            plans = [EitherOrder(plans[0], lambda: self._by_one_thread(lods))]
        return ReplicaStep(self.program, plans, batched, group.replicas, group.held)

    def _by_one_thread(self, lods: frozenset[str]) -> Plan:
        whole = rewrite(self.program, [replace(one, threads=1) for one in self.settings])
        (request,) = self._requests(whole, lods)
        return Plan(replace(request, threads=1))

    def _reading_step(self, lods: frozenset[str]) -> ReadingStep:
        reads, rest, names = without_reads(self.program)
        now, group = self.conditions, self.group
        reader = Prepared(Wanted(reads, (), names, now.strategy, group), now)
        fed = (*self.feeds, *names)
        others = Prepared(Wanted(rest, fed, self.fetches, now.strategy, group), now)
        (plan,) = reader.plans(frozenset(), lends=True)
        return ReadingStep(plan, names, others.step, lods, NextLookups(reads, rest))

    def _requests(
        self, programs: Sequence[Rewritten], lods: frozenset[str], *, lends: bool = False
    ) -> list[Request]:
        now = self.conditions
        return [
            Request(
                one.program.global_block(),
                self.feeds,
                self.fetches,
                now.devices[rank],
                lods,
                now.memories[rank],
                self.group.member(rank),
                now.threads,
                now.watched,
                now.kernels,
                now.strategy.enable_backward_optimizer_op_deps,
                now.strategy.compiles,
                lends,
                now.overlaps and self.group.member(rank).background,
                now.counts,
                now.sums_rows,
            )
            for rank, one in enumerate(programs)
        ]


def find(wanted: Wanted) -> Prepared | None:
    """What `prepared` would give, where it is there already."""
    return wanted.group.cache.get(_key(wanted, wanted.group.conditions(wanted.strategy)))


def prepared(wanted: Wanted, seen: Seen | None = None) -> Prepared:
    """The program for these feeds and fetches, prepared once as long as conditions are equal."""
    now, cache = wanted.group.conditions(wanted.strategy), wanted.group.cache
    key = _key(wanted, now)
    found = cache.get(key)
    if found is None:
        found = Prepared(wanted, now, seen)
        found.add_slots()
        if not now.alone and now.trainers > 1:
            _agree(wanted, now, found.feeds)
        cache.keep(key, found)
    return found


def _agree(wanted: Wanted, now: Conditions, feeds: Sequence[str]) -> None:
    """All trainers run this program, at the first time. Each may fetch what it likes."""
    from refluid.engine.agreement import agree_on_program  # most have one trainer

    group, program = wanted.group, wanted.program
    key = _key(wanted._replace(fetches=()), now)
    if key not in group.agreed:
        all_have_data("run a program for the first time, or with other feeds")
        agree_on_program(group.trainers, program, now.strategy, feeds)
        group.agreed.keep(key, program)


def prepare(
    program: Program,
    feeds: tuple[str, ...],
    fetches: tuple[str, ...],
    strategy: Strategy,
    group: Group,
    lods: frozenset[str] = frozenset(),
    loss: str | None = None,
) -> RunnableStep:
    """The step of a program in which the variables `lods` are fed with LoD.

    Raises EnforceNotMet where the program is unsound, or a gradient that must be fed is not.
    """
    wanted = Wanted(program, feeds, fetches, strategy, group, loss)
    step: RunnableStep = prepared(wanted).step(lods)
    return step


def _key(wanted: Wanted, now: Conditions) -> tuple[Any, ...]:
    # Conditions that are equal are one object, which is kept.
    program, feeds, fetches, _, _, loss, inference = wanted
    return id(program), program.change_count, feeds, fetches, id(now), loss, inference
