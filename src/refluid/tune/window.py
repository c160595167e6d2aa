"""A window of a training loop: some of its steps with what they were fed, to be run again at will.

It lives in the process of the script, which waits meanwhile: nothing is written down, so whatever
a script runs can be run again. State is put back before each run of the window.
"""

from __future__ import annotations

import copy
import hashlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from refluid.comm.world import world
from refluid.core import random as generators
from refluid.core.scope import Scope
from refluid.engine.choices import Choices, choosing
from refluid.engine.knobs import KnobScope
from refluid.engine.listening import RunCall
from refluid.fluid.compiler import CompiledProgram
from refluid.ir.program import Program
from refluid.measure.peak import peak_bytes
from refluid.measure.timing import no_collection
from refluid.runtime.recorded.trial import compiling, undecided
from refluid.tune.living import numbers_of

# Steps until a plan is as it stays: shapes that come for the fourth time are recorded.
_WARM = 6
# Programs that read by themselves get what waits in their queue again and again.
_SAME_BATCH = KnobScope.FLAG, "FLAGS_reader_queue_speed_test_mode", True
# How long compiling may take, and how often it is asked whether it has ended.
_COMPILING, _POLL = 90.0, 0.02


@dataclass(frozen=True)
class Replayed:
    """seconds: of each step. losses: of each step, what was fetched as one number, added up.

    norm: of all that is trained, in the end. peak: bytes that torch held at once; 0: not measured.
    """

    seconds: list[float]
    losses: list[float]
    norm: float
    peak: int = 0


class StepWindow:
    """calls: consecutive ones of one program. What is in the scope now is what they begin with.

    beside: the script's readers go on meanwhile, so only random numbers of programs are put back,
    and the program may not read by itself.
    """

    def __init__(self, calls: Sequence[RunCall], *, beside: bool = False) -> None:
        self._calls = [replace(call, feed=copy.deepcopy(call.feed)) for call in calls]
        self._program = plain_program(calls[0].program)
        self._kept = _Kept(self._program, calls[0].scope, beside=beside)
        self._twins: dict[str, CompiledProgram] = {}
        self._warm: set[str] = set()

    @property
    def shapes(self) -> int:
        """How many batches are unlike all others in their shapes."""
        return len({repr(_shapes(call.feed)) for call in self._calls})

    def replay(self, choices: Choices, steps: int, *, memory: bool = False) -> Replayed:
        """So many steps as they would be with these choices, from the same state each time.

        memory: the peak of one more step is measured afterwards.
        """
        with choosing(choices.put(*_SAME_BATCH)):
            calls = self._calls_for(choices)
            if repr(choices) not in self._warm:
                self._run(calls, _WARM * len(calls), Replayed([], [], 0.0))
                self._until_compiled(calls)
                self._warm.add(repr(choices))
            self._put_back()
            found = Replayed([], [], 0.0)
            with no_collection():
                self._run(calls, steps, found)
            norm = self._kept.norm()
            peak = peak_bytes(calls[0]) if memory else 0
            return replace(found, norm=norm, peak=peak)

    def again(self, choices: Choices, steps: int) -> None:
        """Runs steps for whoever watches them."""
        with choosing(choices.put(*_SAME_BATCH)):
            calls = self._calls_for(choices)
            self._put_back()
            self._run(calls, steps, Replayed([], [], 0.0))

    def bits(self, choices: Choices) -> str:
        """A number of all that each call, once, fetches and leaves behind under these choices."""
        told = hashlib.sha256()
        with choosing(choices):
            calls = self._calls_for(choices)
            self._put_back()
            for call in calls:
                for one in call():
                    told.update(np.ascontiguousarray(one).tobytes())
            self._kept.tell(told.update)
        return told.hexdigest()

    def close(self) -> None:
        """Puts back what the script had."""
        self._put_back()
        for one in self._twins.values():
            _end(one)
        self._twins.clear()

    def _calls_for(self, choices: Choices) -> list[RunCall]:
        program = self._calls[0].program
        if not isinstance(program, CompiledProgram):
            return self._calls
        key = repr(choices)
        if key not in self._twins:
            if len(self._twins) > 1:  # the two that are compared are enough
                oldest = next(iter(self._twins))
                _end(self._twins.pop(oldest))
                self._warm.discard(oldest)
            self._kept.put_back([self._calls[0].scope])
            self._twins[key] = program._again()
        return [replace(call, program=self._twins[key]) for call in self._calls]

    def _until_compiled(self, calls: Sequence[RunCall]) -> None:
        deadline = time.monotonic() + _COMPILING
        while True:
            wanted = undecided() and time.monotonic() < deadline
            goes_on, waits = _of_any(bool(wanted), compiling() > 0)
            if not goes_on:
                return
            if waits:  # for the compiler, which steps would only hold up
                time.sleep(_POLL)
            else:
                self._run(calls, len(calls), Replayed([], [], 0.0))

    def _put_back(self) -> None:
        scopes = [self._calls[0].scope]
        for twin in self._twins.values():
            scopes += twin._replicated.scopes[1:] if twin._replicated is not None else []
        self._kept.put_back(scopes)

    @staticmethod
    def _run(calls: Sequence[RunCall], steps: int, into: Replayed) -> None:
        for number in range(steps):
            start = time.perf_counter()
            results = calls[number % len(calls)]()
            into.seconds.append(time.perf_counter() - start)
            into.losses.append(sum(numbers_of(results)))


def _shapes(feed: Any) -> Any:
    """The shapes of what is fed, with LoD, in the same order."""
    if isinstance(feed, dict):
        return {name: _shapes(one) for name, one in feed.items()}
    if isinstance(feed, list | tuple):
        return [_shapes(one) for one in feed]
    shape = getattr(feed, "shape", ())
    lengths = getattr(feed, "recursive_sequence_lengths", None)
    return list(shape() if callable(shape) else shape), lengths() if lengths else []


def _of_any(*asked: bool) -> list[bool]:
    """Of each, whether it is so at any trainer: all run the same steps."""
    told = torch.tensor(asked, dtype=torch.int64)
    if world().size > 1:
        world().all_reduce([told], "max")
    return [bool(one) for one in told.tolist()]


def plain_program(program: Any) -> Program:
    """The program that a compiled one was made of, or itself."""
    found: Program = program._program if isinstance(program, CompiledProgram) else program
    return found


def _end(twin: CompiledProgram) -> None:
    if twin._replicated is not None:
        twin._replicated.close()


def _stands_in(tensor: torch.Tensor) -> bool:
    """Whether all of it is one place in memory, as of a table whose rows are on servers."""
    return tensor.numel() > 1 and 0 in tensor.stride()


class _Kept:
    """Values that outlive a step, and the states of all that draws random numbers."""

    def __init__(self, program: Program, scope: Scope, *, beside: bool = False) -> None:
        self._beside = beside
        self._values: dict[str, torch.Tensor] = {}
        for var in program.list_vars():
            cell = scope.find_var(var.name) if var.persistable else None
            held = cell.value if cell is not None else None
            if isinstance(held, torch.Tensor) and not _stands_in(held):
                self._values[var.name] = held.clone()
        self._scope = scope
        self._random = generators.states(), torch.get_rng_state(), np.random.get_state()
        self._python = random.getstate()

    def put_back(self, scopes: Sequence[Scope]) -> None:
        for scope in scopes:
            for name, value in self._values.items():
                cell = scope.find_var(name)
                assert cell is not None
                held = cell.value
                same = isinstance(held, torch.Tensor) and held.shape == value.shape
                if same and held.dtype == value.dtype:
                    held.copy_(value)
                else:
                    cell.value = value.clone()
        own, torchs, numpys = self._random
        generators.set_states(own)
        if self._beside:
            return
        torch.set_rng_state(torchs)
        np.random.set_state(numpys)
        random.setstate(self._python)

    def norm(self) -> float:
        squares = [one.double().square().sum() for one in self._now() if one.is_floating_point()]
        return float(sum(squares) ** 0.5)

    def tell(self, told: Callable[[bytes], None]) -> None:
        """The bytes of all values, one after the other."""
        for value in self._now():
            told(value.contiguous().view(-1).view(torch.uint8).cpu().numpy().tobytes())

    def _now(self) -> Iterator[torch.Tensor]:
        for name in self._values:
            cell = self._scope.find_var(name)
            if cell is not None and isinstance(cell.value, torch.Tensor):
                yield cell.value
