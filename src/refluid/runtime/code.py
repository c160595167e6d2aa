"""Source of a step made callable, and what is needed to explain its errors."""

from __future__ import annotations

import copy
import itertools
import linecache
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from refluid.analysis.uses import Key
from refluid.core.causes import shown_cause
from refluid.core.texts import shorten_causes, shortened
from refluid.ir.operator import Operator
from refluid.kernels import subnormals
from refluid.runtime.failure import explain
from refluid.runtime.printing import show, text_of
from refluid.runtime.source import PlanSource
from refluid.runtime.steps import Free, Pause, Return, Step
from refluid.runtime.trees import COMM, FED, FED_LODS, Name

_numbers = itertools.count()
StepFunction = Callable[[Any, Any, Any], tuple[Any, Any]]


class PausedRun:
    """A step that pauses once: `start` gives what it hands out, `finish` goes on to its end."""

    def __init__(self, code: Code, steps: Any) -> None:
        self._code, self._steps = code, steps

    def start(self) -> tuple[Any, Any]:
        """Runs to the pause; the values that are handed out, and their LoDs."""
        found: tuple[Any, Any] = self._go(self._steps.__next__)
        return found

    def finish(self, given: tuple[Any, ...]) -> tuple[Any, Any]:
        """Goes on with what came back; what the step returns."""
        try:
            self._go(self._steps.send, given)
        except StopIteration as end:
            found: tuple[Any, Any] = end.value
            return found
        raise AssertionError("a step pauses only once")

    def _go(self, move: Callable[..., Any], *given: Any) -> Any:
        try:
            return move(*given)
        except StopIteration:
            raise
        except Exception as error:
            clear = self._code.explain(error)
            shorten_causes(error)
            if clear is error:
                raise
            raise clear from shown_cause(error)
        finally:
            subnormals.keep()  # a failure may lie between


class Code:
    """A compiled `step(F, C, L)`; its source shows in tracebacks and debuggers.

    names: the Python name of each variable of the program.
    """

    def __init__(self, source: PlanSource, names: Mapping[Key, Name], kind: str) -> None:
        self.source, self.names = source, names
        self.filename = f"<refluid {kind} {next(_numbers)}>"
        text = source.text
        lines = [f"{shortened(line)}\n" for line in text.splitlines()]
        linecache.cache[self.filename] = (len(text), None, lines, self.filename)
        weakref.finalize(self, linecache.cache.pop, self.filename, None)
        self.namespace = dict(source.constants)
        exec(compile(text, self.filename, "exec"), self.namespace)
        watch, step = self.namespace.get("watch"), self.namespace["step"]
        self.step: StepFunction = step if watch is None else watch.around(step)

    def with_step(self, step: StepFunction) -> Code:
        """The same code, entered through `step`."""
        other = copy.copy(self)
        other.step = step
        return other

    def run(self, feeds: Any, cells: Any, levels: Any) -> tuple[Any, Any]:
        """Runs the step. Raises EnforceNotMet naming the operator and the user's line."""
        try:
            return self.step(feeds, cells, levels)
        except Exception as error:
            clear = self.explain(error)
            shorten_causes(error)
            if clear is error:
                raise
            raise clear from shown_cause(error)
        finally:
            subnormals.keep()  # a failure may lie between

    def begin(self, feeds: Any, cells: Any, levels: Any) -> PausedRun:
        """Starts a step that pauses."""
        return PausedRun(self, self.step(feeds, cells, levels))

    @property
    def origin(self) -> Mapping[int, Operator]:
        """The operator of each line."""
        return self.source.origin

    def explain(self, error: Exception) -> Exception:
        """The error to raise instead of one that came out of the step."""
        return explain(error, self.filename, self.source, self.names)


# -- one step after the other ----------------------------------------------------

# Constants of a plan that stand for more than a function or an attribute.
_OUTSIDE = frozenset({FED, FED_LODS, COMM})


@dataclass(frozen=True)
class PreparedStep:
    """A step of a plan: how to run it, the local variables it reads and those it sets.

    outside: it has to do with what is fed, with the scope, or with other replicas.
    """

    step: Step
    code: CodeType
    loads: tuple[Name, ...]
    stores: tuple[Name, ...]
    outside: bool


_NOTHING = compile("", "", "exec")  # names are freed without code of their own


def prepared(code: Code) -> list[PreparedStep]:
    """The steps of a plan."""
    return [_prepared(code, step, line) for step, line in code.source.starts()]


def _prepared(code: Code, step: Step, line: int) -> PreparedStep:
    if isinstance(step, Free):
        compiled = _NOTHING
    elif isinstance(step, Return | Pause):
        compiled = compile(show(step.value), code.filename, "eval")
    else:
        compiled = compile(text_of(step), code.filename, "exec")
    reads, writes = step.reads, step.writes
    loads, stores = (
        tuple(sorted(one for one in found if isinstance(one, Name))) for found in (reads, writes)
    )
    outside = len(loads) + len(stores) < len(reads) + len(writes) or bool(step.known & _OUTSIDE)
    return PreparedStep(step, compiled.replace(co_firstlineno=line), loads, stores, outside)
