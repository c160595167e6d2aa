"""The steps of a plan, each ready to be run by itself."""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType

from refluid.runtime.code import Code
from refluid.runtime.printing import show, text_of
from refluid.runtime.steps import Free, Pause, Return, Step
from refluid.runtime.trees import COMM, FED, FED_LODS, Name

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
