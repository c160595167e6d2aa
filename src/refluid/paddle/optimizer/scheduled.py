"""The learning rate of a program that follows a schedule outside of it."""

from __future__ import annotations

from collections.abc import Iterable

from refluid.core.scope import Scope
from refluid.paddle.optimizer.lr import LRScheduler


class ScheduledRate:
    """Writes the rate that a schedule has into a program's variable, before each run."""

    def __init__(self, name: str, schedule: LRScheduler) -> None:
        self._name, self._schedule = name, schedule

    def __call__(self, scopes: Iterable[Scope]) -> None:
        """In those of `scopes` in which the startup program has made the variable."""
        rate = float(self._schedule())
        for scope in scopes:
            cell = scope.find_var(self._name)
            if cell is not None and cell.value is not None:
                cell.value.fill_(rate)
