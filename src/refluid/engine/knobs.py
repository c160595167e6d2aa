"""`Knob`: everything there is to know of one thing that users, and the tuner, can set.

Strategies, the tables of docs/knobs.md and what the log says of options without effect are made of
these records.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum, IntEnum
from typing import Any

from refluid.core.bounds import MOST


class KnobScope(Enum):
    """Where a knob is set."""

    BUILD = "BuildStrategy"
    EXECUTION = "ExecutionStrategy"
    FLAG = "FLAGS"
    READER = "DataLoader.from_generator"
    LOADER = "DataLoader"
    DATASET = "Executor.train_from_dataset"
    DYGRAPH = "fluid.dygraph"
    PRECISION = "mixed precision"
    WRAPPER = "optimizer wrappers"
    FLEET = "fleet.DistributedStrategy"
    ENVIRONMENT = "the environment"


@dataclass(frozen=True)
class MeasuredEffect:
    """What a knob gains on a network that it is meant for: ratios of with to without it.

    time: of a step, from `low` to `high` over the blocks; peak: of memory, None where that isn't
    what the case is about. where: on which machine and when, if not with the others.
    """

    network: str
    time: float
    low: float
    high: float
    peak: float | None = None
    where: str = ""

    @property
    def is_neutral(self) -> bool:
        """Whether steps take as long with the knob as without it, as far as was seen."""
        return self.low <= 1.0 <= self.high


@dataclass(frozen=True)
class Knob:
    """One knob; the type of its values is that of `default`.

    does: what setting it does here. ignored: why it changes nothing here, empty where it does.
    unmeasured: why there is no figure of what it gains; else `measured` is that. most: the largest
    number.
    """

    name: str
    scope: KnobScope
    default: Any
    does: str
    ignored: str = ""
    unmeasured: str = ""
    most: int = MOST
    measured: MeasuredEffect | None = None

    @property
    def kinds(self) -> tuple[type[Any], ...]:
        """The types that values may have; None is unset, True or False."""
        if self.default is None:
            return bool, type(None)
        if isinstance(self.default, frozenset):
            return set, list
        if isinstance(self.default, tuple):
            return (list,)
        kind = type(self.default)
        return (kind, int) if isinstance(self.default, IntEnum) else (kind,)

    @property
    def shown(self) -> str:
        """The default as documents show it."""
        if isinstance(self.default, frozenset | tuple):
            return repr(thawed(self.default))
        return str(getattr(self.default, "name", None) or repr(self.default))


@dataclass(frozen=True)
class About:
    """What the field of a strategy says of its knob: `Annotated[bool, About(...)]`."""

    scope: KnobScope
    does: str = "no effect, as the log says"
    ignored: str = ""
    unmeasured: str = ""
    most: int = MOST


def knobs_of(strategy: type[Any], scope: KnobScope) -> dict[str, Knob]:
    """The knobs of a strategy's fields that are set in that place, by name."""
    found = {}
    for one in sorted(fields(strategy), key=lambda field: field.name):
        (about,) = one.type.__metadata__  # type: ignore[union-attr]
        if about.scope is scope:
            found[one.name] = Knob(
                one.name,
                scope,
                one.default,
                about.does,
                about.ignored,
                about.unmeasured,
                about.most,
            )
    return found


def thawed(value: Any) -> Any:
    """The value as users may change it: a set or list of their own."""
    if isinstance(value, frozenset):
        return set(value)
    return list(value) if isinstance(value, tuple) else value


def frozen(value: Any) -> Any:
    """The value as a strategy keeps it."""
    if isinstance(value, set):
        return frozenset(value)
    return tuple(value) if isinstance(value, list) else value
