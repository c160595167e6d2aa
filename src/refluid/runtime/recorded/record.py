"""Runs a plan step by step and lists what that did: kernels, and lines that must stay."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from refluid.analysis.placeholders import is_placeholder
from refluid.analysis.uses import Key
from refluid.core.scope import Cell
from refluid.core.whole_threads import interrupts_later
from refluid.kernels.watching import LACKING
from refluid.ops.effects import Effect
from refluid.runtime import pairing
from refluid.runtime.code import Code, PreparedStep, prepared
from refluid.runtime.recorded.graph import Kernel, Line, Part, Value
from refluid.runtime.recorded.settled import (
    calls_plainly,
    decided,
    is_gathered,
    is_pure,
    overwrites,
    settles,
)
from refluid.runtime.recorded.trace import Reads, TracedKernels, Values
from refluid.runtime.steps import Call, Compound, Free, Pause, Return, Step
from refluid.runtime.trees import COMM, Name

if TYPE_CHECKING:
    from refluid.runtime.recorded.unrolled import Loops


@dataclass
class StepRecording:
    """One step: what it did in order, and for each name of the plan its last value."""

    steps: list[Part]
    names: dict[Name, Value]
    refused: dict[str, int]

    def names_of(self, code: Code) -> dict[Key, Name]:
        """The Python name of each variable of the program, in what is written of the recording."""
        last = self.names
        return {key: Name(last[name].name) for key, name in code.names.items() if name in last}


class Refused(Exception):
    """This step cannot be recorded at all."""


@dataclass(eq=False)
class _RecordedLine:
    """A step's kernels, and the line it is if they can't be used."""

    line: Line
    kernels: list[Kernel] | None
    unrolled: bool = False


class StepRecorder:
    """Executes the steps of a plan, watching each. body: these, if known.

    unrolls: loops over time steps are recorded as the kernels of all steps. conflicts: a line needs
    what such a loop would have made, so that it has to be recorded as the line it is.
    """

    def __init__(
        self, code: Code, body: list[PreparedStep] | None = None, *, unrolls: bool = False
    ) -> None:
        self.code, self.conflicts = code, False
        self.body = prepared(code) if body is None else body
        self.namespace: dict[str, Any] = dict(code.source.constants)
        self._loops: Loops | None = None
        if unrolls and any(isinstance(one.step, Compound) for one in self.body):
            from refluid.runtime.recorded.unrolled import Loops  # few programs have any

            self._loops = Loops(code, self.namespace)
        self.values = Values()
        self.bound: dict[Name, Value] = {}
        self.last: dict[Name, Value] = {}
        self.runs: list[_RecordedLine] = []
        self.refused: dict[str, int] = {}
        self.tapes: dict[Value, _RecordedLine] = {}
        self.result: Any = None

    def run(self, feeds: Sequence[Tensor], cells: Sequence[Any], levels: Sequence[Any]) -> Any:
        """Runs the step for real, and returns what it returns.

        Raises EnforceNotMet naming the operator and the user's line when one fails.
        """
        return self.code.with_step(self._run).run(feeds, cells, levels)

    def _run(self, feeds: Sequence[Tensor], cells: Sequence[Any], levels: Sequence[Any]) -> Any:
        for _ in self.steps(feeds, cells, levels):
            raise AssertionError("a step that pauses is recorded by `steps`")
        return self.result

    def steps(
        self, feeds: Sequence[Tensor], cells: Sequence[Any], levels: Sequence[Any]
    ) -> Generator[Any, Any, Any]:
        """The same of a step that pauses: gives what it hands out, and is sent what comes back."""
        self.namespace.update(F=feeds, C=cells, L=levels)
        for one in self.body:
            if isinstance(one.step, Return):
                self._return(one)
            elif isinstance(one.step, Free):
                self._free(one.step)
            elif isinstance(one.step, Pause):
                given = yield eval(one.code, self.namespace)
                self._given(one, one.step, given)
            else:
                self._step(one)
        return self.result

    @property
    def recording(self) -> StepRecording:
        """What has been recorded."""
        steps: list[Part] = []
        for one in self.runs:
            steps += [one.line] if one.kernels is None else one.kernels
        return StepRecording(steps, self.last, self.refused)

    def check(self, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> None:
        """Raises Refused where values would be taken for one another, or torch can't be watched."""
        if LACKING:
            raise Refused(f"this torch has no {LACKING[0]}")
        places: set[int] = set()
        for value in [*feeds, *(cell.value for cell in cells)]:
            if not isinstance(value, Tensor) or not value.numel():
                continue
            place = value.untyped_storage().data_ptr()
            if place in places:
                raise Refused("two of its variables share memory")
            places.add(place)

    # -- steps ----------------------------------------------------------------

    def _step(self, one: PreparedStep) -> None:
        step, op = one.step, one.step.op
        before = {name: self.bound[name] for name in one.loads if name in self.bound}
        loops = self._loops if self._loops and self._loops.unrolls(step) else None
        traced = not one.outside and self._are_known(before)
        traced = traced and (loops is not None or self._may_trace(step))
        kernels = TracedKernels(self.values, "" if traced else "is a line")
        random = self.namespace["random"]
        random.seeded = False
        if loops is not None:
            kernels.within = loops.operator_within(one)
        # In whole, as torch's modes could stay in force; but not what may wait for others.
        waits = isinstance(step, Call) and step.effects & (Effect.COMM | Effect.HOST)
        with nullcontext() if waits else interrupts_later(), kernels, Reads(kernels):
            exec(one.code, self.namespace)
        for kernel in kernels.kernels:
            kernel.op = kernel.op or op
        if loops is not None:
            kernels.refused = kernels.refused or loops.refuses(kernels.kernels)
        if random.seeded:
            kernels.refused = "draws the same random numbers in every step"
        reason = kernels.refused or self._unknown(one.stores, loops is not None)
        if reason and traced:
            self.refused[reason] = self.refused.get(reason, 0) + 1
        line = Line(step, before, {})
        settled = settles(op, before) and not kernels.unsettled
        line.stores = self._made(line, one, settled)
        if reason:
            self._make_anew(line)
        if kernels.refused and op is not None:  # who knows what it wrote
            touched = (*line.loads.values(), *line.stores.values())
            self.values.doubt({value.storage for value in touched})
        self._keep(line, None if reason else kernels.kernels, loops is not None)

    def _given(self, one: PreparedStep, step: Pause, given: tuple[Any, ...]) -> None:
        """What came back from a pause: tensors that nobody has seen, of shapes as handed out."""
        before = {name: self.bound[name] for name in one.loads if name in self.bound}
        self.namespace.update(zip(step.target, given, strict=True))
        line = Line(step, before, {})
        line.stores = self._made(line, one, settled=all(v.settled for v in before.values()))
        self._keep(line)

    def _unknown(self, stores: tuple[Name, ...], unrolled: bool) -> str:
        """Why a traced step's results cannot be told from its kernels; "" if they can."""
        for name in stores:
            thing = self.namespace.get(name)
            if isinstance(thing, Tensor):
                if self.values.find(thing) is None:
                    return "makes a tensor that no kernel made"
                if self.values.is_kept(thing) and not (unrolled and is_placeholder(thing)):
                    return "gives away a constant, which others may write to"
            elif thing is not None and not (unrolled or isinstance(thing, pairing.Taped)):
                return f"makes a {type(thing).__name__}"
        return ""

    def _made(self, line: Line, one: PreparedStep, settled: bool) -> dict[Name, Value]:
        """The values of the variables that a step set."""
        before, op = line.loads, line.op
        sure: set[str] = set()
        if not settled:
            sure = decided(op, self.code.names, self.last | before, self.namespace)
            for value in before.values():  # what it was given to fill may hold anything now
                value.settled &= value.storage is not None or value.plain
        made: dict[Name, Value] = {}
        exchanges = COMM in one.step.known
        for name in one.stores:
            if name not in self.namespace:
                continue
            thing = self.namespace[name]
            if not isinstance(thing, Tensor):
                made[name] = self.values.other(thing)
                # Of a variable that holds no tensor only the type is looked at.
                made[name].settled = settled and (thing is None or not one.outside)
                continue
            known = self.values.find(thing)
            same = overwrites(op) and known in before.values()
            fresh = settled and not (exchanges and is_gathered(thing, before))
            if same or fresh or (name in sure and known is None):
                made[name] = self.values.add(thing)
            else:
                made[name] = self.values.apart(thing)
        return made

    def _make_anew(self, line: Line) -> None:
        """What a line makes is no constant, though a kernel's argument of the same memory was."""
        for name, value in line.stores.items():
            if value.constant is not None:
                line.stores[name] = self.values.made_anew(self.namespace[name])

    def _keep(
        self, line: Line, kernels: list[Kernel] | None = None, unrolled: bool = False
    ) -> None:
        kept = _RecordedLine(line, kernels, unrolled)
        if kernels is None:
            # What reads autograd's recording of an operator needs that operator's own line.
            for value in line.loads.values():
                if value in self.tapes:
                    maker = self.tapes[value]
                    # A line that binds None, say, takes nothing of a loop.
                    self.conflicts |= maker.unrolled and not (value.plain and not maker.line.loads)
                    maker.kernels = None
        else:
            self.tapes |= {value: kept for value in line.stores.values() if value.storage is None}
        self.runs.append(kept)
        self._bind(line.stores)

    def _bind(self, made: dict[Name, Value]) -> None:
        self.bound.update(made)
        self.last.update(made)

    def _may_trace(self, step: Step) -> bool:
        if isinstance(step, Compound) or step.op is None:
            return False
        plain = calls_plainly(step, self.namespace) if isinstance(step, Call) else not step.known
        return is_pure(step.op) and plain

    def _are_known(self, before: dict[Name, Value]) -> bool:
        return all(
            value.settled and (value.storage is not None or value.plain or value in self.tapes)
            for value in before.values()
        )

    def _free(self, step: Free) -> None:
        for name in step.names:
            self.namespace.pop(name, None)
            self.bound.pop(name, None)

    def _return(self, one: PreparedStep) -> None:
        self.result = eval(one.code, self.namespace)
        before = {name: self.bound[name] for name in one.loads if name in self.bound}
        self._keep(Line(one.step, before, {}))
