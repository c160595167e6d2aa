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

import re
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

from refluid.core.threads import begin_thread, operator_threads
from refluid.ir.attributes import OpRole
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ops.registry import find
from refluid.runtime.dependencies import Statement, predecessors, statements
from refluid.runtime.source import Source

NONE: frozenset[int] = frozenset()
_LOCAL = re.compile(r"[a-z]+\d\w*")


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
        run = _Run(self._counts, self._next, pieces)
        with _threads(self.threads) as pool:
            for future in [pool.submit(run.work) for _ in range(self.threads)]:
                future.result()
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


class _Run:
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
        self.changed = threading.Condition()

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
        with self.changed:
            while not self.ready and self.left and self.error is None:
                self.changed.wait()
            return self.ready.popleft() if self.ready and self.error is None else None

    def _done(self, number: int) -> int | None:
        """Notes that one is done; what this thread goes on with."""
        with self.changed:
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
                    self.changed.notify(len(released) - 1)
                return released[0]
            if not self.left:
                self.changed.notify_all()
        return self._take()

    def _fail(self, error: BaseException) -> None:
        with self.changed:
            self.error = self.error or error
            self.changed.notify_all()


def out_of_order(
    source: Source,
    block: Block,
    local: Callable[[Any, str], str],
    threads: int,
    updates_last: bool,
) -> Source:
    """The plan's source with each statement a function, and a schedule that runs them.

    What comes first and takes no time, the lookup of what is fed and of variables, stays in front.
    updates_last: updates of parameters wait for the whole backward pass.
    """
    found = statements(source, lambda line, name: _overwrites(source, line, name))
    memory = _shared_memory(source, block, local)
    waits = predecessors(found, memory)
    if updates_last:
        _hold_updates(found, waits, source)
    first = next((n for n, one in enumerate(found) if waits[n] or _ops(one, source)), len(found))
    waits = [{number - first for number in one if number >= first} for one in waits[first:]]
    made = Source(source.lines[0])
    quick = {number for number, one in enumerate(found[first:]) if not _ops(one, source)}
    made.constants = {**source.constants, "schedule": Schedule(waits, threads, quick)}
    names = sorted({name for one in found for name in one.reads | one.writes if "[" not in name})
    for start in range(0, len(names), 12):
        made.add(" = ".join(names[start : start + 12]) + " = None")
    for one in found[:first]:
        _write(made, source, one)
    for number, one in enumerate(found[first:]):
        _write_function(made, source, one, number)
    made.add(f"schedule(({', '.join(f's_{number}' for number in range(len(waits)))},))")
    made.lines.append(source.lines[-1])
    return made


def _hold_updates(found: Sequence[Statement], waits: list[set[int]], source: Source) -> None:
    """Makes every update wait for the backward operators that no other of them waits for."""
    ends: set[int] = set()
    for number, one in enumerate(found):
        role = _role(one, source)
        if role & OpRole.BACKWARD:
            ends = (ends - waits[number]) | {number}
        elif role & OpRole.OPTIMIZE:
            waits[number] |= ends


def _role(one: Statement, source: Source) -> int:
    return next((op.role for op in _ops(one, source)), 0)


def _ops(one: Statement, source: Source) -> list[Operator]:
    found = (source.origin.get(line) for line in range(one.first, one.last + 1))
    return [op for op in found if op is not None]


def _write_function(made: Source, source: Source, one: Statement, number: int) -> None:
    with made.block(f"def s_{number}():"):
        changed = sorted(name for name in one.writes if "[" not in name)
        if changed:
            made.add(f"nonlocal {', '.join(changed)}")
        _write(made, source, one)


def _write(made: Source, source: Source, one: Statement) -> None:
    for line in range(one.first, one.last + 1):
        made.add(source.lines[line - 1][4:], source.origin.get(line))


def _overwrites(source: Source, line: int, name: str) -> bool:
    """Whether the function called on that line changes what it is given."""
    op = source.origin.get(line)
    definition = find(op.type) if op is not None else None
    if definition is None:
        return False
    body = source.constants.get(name)
    return bool(definition.mutates) or any(body is one for one in definition.reusing.values())


def _shared_memory(
    source: Source, block: Block, local: Callable[[Any, str], str]
) -> Callable[[str], str]:
    """name -> one name for all names whose values may share memory with its value."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.get(name, name) != name:
            name = parent[name]
        return name

    for one in block.program.blocks:
        for op in one.ops:
            definition = find(op.type)
            for out_slot, in_slot in definition.views.items() if definition else ():
                for out in op.output(out_slot):
                    for given in op.input(in_slot):
                        parent[root(local(one, out))] = root(local(one, given))
    for line in source.lines:
        found = re.fullmatch(r"\s*(\w+) = (\w+)", line)
        if found and all(_LOCAL.fullmatch(name) for name in found.groups()):
            parent[root(found[1])] = root(found[2])
    return root
