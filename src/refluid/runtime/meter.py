"""`Meter`: the memory, arithmetic and traffic of one step, operator by operator.

Looks at every kernel that PyTorch runs, so the step it measures is a slow one: its times say
nothing. What kernels allocate inside themselves, without PyTorch's knowledge, isn't seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from refluid.analysis.placeholders import is_placeholder
from refluid.kernels.holders import Storage, storage_of
from refluid.kernels.watching import DispatchMode
from refluid.runtime.request import Request
from refluid.runtime.trees import leaves
from refluid.runtime.watched import Watched

STATE, FED = -1, -2


@dataclass(slots=True)
class Held:
    """Memory held from moment `born` until moment `died` (None: after the step too).

    operator: number of the one that made it, STATE or FED. shape, dtype: of the first tensor
    in it. name: the variable, where it is one.
    """

    size: int
    operator: int
    born: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    name: str = ""
    died: int | None = None


@dataclass(slots=True)
class OperatorWork:
    """Arithmetic (floating-point operations) and bytes read and written by an operator."""

    flops: int = 0
    moved: int = 0


@dataclass
class Measured:
    """One step. `curve`: operator and bytes held at each moment (after every kernel).

    fed: shapes of the fed variables.
    """

    request: Request
    watched: list[Watched]
    fed: dict[str, tuple[int, ...]]
    held: list[Held] = field(default_factory=list)
    curve: list[tuple[int, int]] = field(default_factory=list)
    work: dict[int, OperatorWork] = field(default_factory=dict)

    @property
    def peak_moment(self) -> int:
        """The moment at which most bytes were held."""
        return max(range(len(self.curve)), key=lambda moment: self.curve[moment][1], default=0)

    @property
    def peak(self) -> int:
        """The most bytes held at once."""
        return max((size for _, size in self.curve), default=0)

    def at_peak(self) -> list[Held]:
        """What was held at the peak, largest first."""
        moment = self.peak_moment
        held = [
            one
            for one in self.held
            if one.born <= moment and (one.died is None or one.died > moment)
        ]
        return sorted(held, key=lambda one: -one.size)


class Meter:
    """Measures the run number `run`, counted from 1, of every program while it is armed."""

    def __init__(self, run: int = 1) -> None:
        self.run = run
        self.steps: list[Measured] = []
        self._runs: Counter[object] = Counter()

    def wants(self, request: Request) -> bool:
        """Whether this run is to be measured; asked at every one.

        Plans are made anew for other instruments, so programs are told apart by what is known
        of them.
        """
        key = (request.feeds, request.fetches, len(request.block.ops), request.comm.rank)
        self._runs[key] += 1
        return self._runs[key] == self.run

    @contextmanager
    def step(
        self,
        request: Request,
        watched: list[Watched],
        state: Mapping[str, Any],
        feeds: Sequence[Any],
    ) -> Iterator[MeteredKernels]:
        """Measures what runs inside; `enter` and `leave` say which operator it is."""
        fed = dict(zip(request.feeds, feeds, strict=True))
        shapes = {name: tuple(value.shape) for name, value in fed.items()}
        kernels = MeteredKernels(Measured(request, watched, shapes))
        for values, owner in ((state, STATE), (fed, FED)):
            for name, value in values.items():
                kernels.hold(value, owner, name)
        kernels.moment()
        with kernels:
            yield kernels
        kernels.moment()
        self.steps.append(kernels.found)

    @property
    def largest(self) -> Measured | None:
        """The measured step that needed most memory."""
        return max(self.steps, key=lambda step: step.peak, default=None)


class MeteredKernels(DispatchMode):
    """Sees every kernel, and keeps the table of the memory that is held."""

    def __init__(self, found: Measured) -> None:
        from torch.utils.flop_counter import flop_registry

        super().__init__()
        self.found, self._counts = found, flop_registry
        self._live: dict[int, tuple[Storage, Held]] = {}
        self._total = 0
        self._operators = [STATE]
        self._read: dict[int, int] = {}
        self._made: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        operator = self._operators[-1]
        outputs = [one for one in leaves(result) if isinstance(one, Tensor)]
        before = set(self._live)
        for one in outputs:
            self.hold(one, operator)
        self._made |= set(self._live) - before
        self.moment()
        count = self._counts.get(func.overloadpacket)
        if count is not None:
            self._work(operator).flops += int(count(*args, **kwargs, out_val=result))
        for one in leaves((args, kwargs)):
            storage = storage_of(one)
            if storage is not None and storage.key not in self._made:
                size = one.numel() * one.element_size()
                self._read[storage.key] = max(self._read.get(storage.key, 0), size)
        return result

    def hold(self, value: Any, operator: int, name: str = "") -> None:
        """Notes the memory of a tensor, unless it is known."""
        storage = storage_of(value)
        if storage is None or storage.key in self._live or is_placeholder(value):
            return
        size = value.untyped_storage().nbytes()
        held = Held(size, operator, len(self.found.curve), tuple(value.shape), value.dtype, name)
        self._live[storage.key] = (storage, held)
        self.found.held.append(held)
        self._total += size

    def moment(self) -> None:
        """Notes what is still held now."""
        now = len(self.found.curve)
        for key in [key for key, (storage, _) in self._live.items() if storage.expired()]:
            _, held = self._live.pop(key)
            held.died = now
            self._total -= held.size
        self.found.curve.append((self._operators[-1], self._total))

    def enter(self, number: int) -> None:
        """The operator of this number begins."""
        self._operators.append(number)
        self._read.clear()
        self._made.clear()

    def leave(self, number: int, names: Sequence[str], values: Sequence[Any]) -> None:
        """It has ended with these outputs."""
        for name, value in zip(names, values, strict=True):
            storage = storage_of(value)
            found = self._live.get(storage.key) if storage is not None else None
            if found is not None and not found[1].name:
                found[1].name = name
        self.moment()
        written = sum(self._live[key][1].size for key in self._made if key in self._live)
        self._work(number).moved += sum(self._read.values()) + written
        self._operators.pop()

    def _work(self, operator: int) -> OperatorWork:
        return self.found.work.setdefault(operator, OperatorWork())


_armed: Meter | None = None


def armed() -> Meter | None:
    """The meter that waits for a step to measure, if any."""
    return _armed


def arm(meter: Meter | None) -> Meter | None:
    """From now on `meter` measures (None: none); the one that did until now."""
    global _armed
    former, _armed = _armed, meter
    return former
