"""What every pass has in common: it rewrites a program in place, and reports what it did.

    def early_updates(program: Program, groups: UpdateGroups) -> Report

The second argument is a frozen record of the pass's own options, `Options` where it has none. The
program is a copy that the pipeline made (`engine.pipeline`, the one table of passes).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Options:
    """kept: variables that are fed or fetched, and so stay computed."""

    kept: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Refusal:
    """A place where a pattern fits and the rule doesn't fire, and why."""

    place: str
    reason: str


@dataclass
class Report:
    """What a pass did: the operators it made of others, the places it left with the reason.

    changed: whether it did anything else.
    """

    made: list[str] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    changed: bool = False

    def __bool__(self) -> bool:
        """Whether the program isn't what it was."""
        return bool(self.made) or self.changed
