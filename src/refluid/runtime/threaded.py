"""A plan whose operators run out of order in several threads, as soon as what they need is there.

def step(F, C, L):
    v0 = v1 = v2 = None
    def s0():
        nonlocal v0
        v0, = F
    def s1():
        nonlocal v1
        v1 = relu(v0)
    ...
    schedule((s0, s1, ...))
    return (v2,), ((),)
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

from refluid.core.threads import begin_thread, operator_threads
from refluid.core.whole_threads import Waiters, all_ended
from refluid.ir.attributes import OpRole
from refluid.ir.block import Block
from refluid.ops.registry import find
from refluid.runtime.dependencies import predecessors
from refluid.runtime.source import PlanSource
from refluid.runtime.steps import Bind, Call, Clear, Function, Step, all_steps
from refluid.runtime.trees import Name, Reference
from refluid.runtime.variables import Variables

NONE: frozenset[int] = frozenset()


class Schedule:
    """Runs functions in `threads` threads; each as soon as those it waits for are done.

    Where one waits for one other alone that nothing else waits for, both are one piece of work. A
    worker that finishes one goes on with what that made ready. The first error ends the run and
    is raised; nothing new is started after it.

    waits: for each function the numbers of those that it waits for, which are lower.
    quick: functions that take no time.
    """

    def __init__(self, waits: Sequence[set[int]], threads: int, quick: Set[int] = NONE) -> None:
        self.threads = threads
        self.waits = _direct(waits)
        self._chains = _chains(self.waits, quick)
        place = {number: i for i, chain in enumerate(self._chains) for number in chain}
        before = [
            {place[earlier] for number in chain for earlier in self.waits[number]} - {i}
            for i, chain in enumerate(self._chains)
        ]
        self._counts = [len(one) for one in before]
        self._next: list[list[int]] = [[] for _ in self._chains]
        for number, one in enumerate(before):
            for earlier in one:
                self._next[earlier].append(number)

    def __call__(self, functions: Sequence[Callable[[], None]]) -> None:
        pieces = [[functions[number] for number in chain] for chain in self._chains]
        run = _Running(self._counts, self._next, pieces)
        with _threads(self.threads) as pool:
            all_ended(lambda: [pool.submit(run.work) for _ in range(self.threads)])
        if run.error is not None:
            raise run.error


def _direct(waits: Sequence[set[int]]) -> list[set[int]]:
    """Without those that another one waits for anyway."""
    before: list[int] = []
    direct = []
    for one in waits:
        indirect = 0
        for number in one:
            indirect |= before[number]
        before.append(indirect | sum(1 << number for number in one))
        direct.append({number for number in one if not indirect >> number & 1})
    return direct


def _chains(waits: Sequence[set[int]], quick: Set[int]) -> list[list[int]]:
    """Numbers to run one after the other: those that follow each other alone, and quick ends."""
    followers = Counter(earlier for one in waits for earlier in one)
    ends = {number for number in quick if len(waits[number]) == 1 and not followers[number]}
    followers.subtract(earlier for number in ends for earlier in waits[number])
    chains: list[list[int]] = []
    of: dict[int, list[int]] = {}
    for number, one in enumerate(waits):
        before = next(iter(one)) if len(one) == 1 else -1
        if number in ends or (followers[before] == 1 and before in of):
            chain = of[before]
        else:
            chain = []
            chains.append(chain)
        chain.append(number)
        of[number] = chain
    return chains


_idle: defaultdict[int, list[ThreadPoolExecutor]] = defaultdict(list)


@contextmanager
def _threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that no other run uses at the moment: replicas wait for each other."""
    try:
        pool = _idle[count].pop()
    except IndexError:
        pool = ThreadPoolExecutor(
            count,
            thread_name_prefix="refluid-operators",
            initializer=begin_thread,
            initargs=(operator_threads(count),),
        )
    try:
        yield pool
    finally:
        _idle[count].append(pool)


class _Running:
    """One step: what is ready, and what each of the others still waits for."""

    def __init__(
        self,
        counts: Sequence[int],
        following: Sequence[Sequence[int]],
        pieces: Sequence[Sequence[Callable[[], None]]],
    ) -> None:
        self.counts, self.following, self.pieces = list(counts), following, pieces
        self.ready = deque(number for number, count in enumerate(counts) if not count)
        self.left = len(pieces)
        self.error: BaseException | None = None
        self.lock = threading.Lock()
        self.waiting = Waiters()

    def work(self) -> None:
        """Runs what is ready until all is done or something failed."""
        with torch.no_grad():
            number = self._take()
            while number is not None:
                try:
                    for function in self.pieces[number]:
                        function()
                except BaseException as error:
                    self._fail(error)
                    return
                number = self._done(number)

    def _take(self) -> int | None:
        while True:
            with self.lock:
                if self.error is not None or not (self.ready or self.left):
                    return None
                if self.ready:
                    return self.ready.popleft()
                changed = self.waiting.join()
            changed.acquire()

    def _done(self, number: int) -> int | None:
        """Notes that one is done; what this thread goes on with."""
        with self.lock:
            self.left -= 1
            released = []
            for later in self.following[number]:
                self.counts[later] -= 1
                if not self.counts[later]:
                    released.append(later)
            if self.error is not None:
                return None
            if released:
                self.ready.extend(released[1:])
                if len(released) > 1:
                    self.waiting.wake()
                return released[0]
            if not self.left:
                self.waiting.wake()
        return self._take()

    def _fail(self, error: BaseException) -> None:
        with self.lock:
            self.error = self.error or error
            self.waiting.wake()


def out_of_order(
    source: PlanSource, block: Block, variables: Variables, threads: int, updates_last: bool
) -> PlanSource:
    """The plan with each step a function, and a schedule that runs them.

    What comes first and takes no time, the lookup of what is fed and of variables, stays in front.
    updates_last: updates of parameters wait for the whole backward pass.
    """
    *found, last = source.steps
    waits = predecessors(found, _shared_memory(found, block, variables))
    if updates_last:
        _hold_updates(found, waits)
    works = [_role(one) is not None for one in found]
    first = next((n for n in range(len(found)) if waits[n] or works[n]), len(found))
    waits = [{number - first for number in one if number >= first} for one in waits[first:]]
    late = found[first:]
    quick = {number for number, one in enumerate(works[first:]) if not one}
    made = PlanSource(source.constants)
    schedule = made.constant("schedule", Schedule(waits, threads, quick))
    names = {one for step in found for one in step.reads | step.writes if isinstance(one, Name)}
    functions = [Name(f"s_{number}") for number in range(len(late))]
    made.steps += [
        Clear(tuple(sorted(names))),
        *found[:first],
        *(Function(name, [step]) for name, step in zip(functions, late, strict=True)),
        Call(None, schedule, (tuple(functions),)),
        last,
    ]
    return made


def _hold_updates(found: Sequence[Step], waits: list[set[int]]) -> None:
    """Makes every update wait for the backward operators that no other of them waits for."""
    ends: set[int] = set()
    for number, one in enumerate(found):
        role = _role(one) or 0
        if role & OpRole.BACKWARD:
            ends = (ends - waits[number]) | {number}
        elif role & OpRole.OPTIMIZE:
            waits[number] |= ends


def _role(one: Step) -> int | None:
    """The role of the operator that a step is of; None for one that is of none."""
    return next((step.op.role for step in all_steps([one]) if step.op), None)


def _shared_memory(
    found: Sequence[Step], block: Block, variables: Variables
) -> Callable[[Reference], Reference]:
    """One name for all variables whose values may share memory with that one's."""
    parent: dict[Reference | None, Reference] = {}

    def root(name: Reference) -> Reference:
        while parent.get(name, name) != name:
            name = parent[name]
        return name

    def share(one: Reference | None, other: Reference | None) -> None:
        if one is not None and other is not None:
            parent[root(one)] = root(other)

    for one in block.program.blocks:
        for op in one.ops:
            definition = find(op.type)
            for out_slot, in_slot in definition.views.items() if definition else ():
                for out in op.output(out_slot):
                    for given in op.input(in_slot):
                        share(variables.local(one, out), variables.local(one, given))
    for step in all_steps(found):
        if isinstance(step, Bind) and type(step.target) is type(step.value) is Name:
            share(step.target, step.value)
    return root
