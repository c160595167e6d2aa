"""What a backend knows of calls that it has seen: how those that look alike are done at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from refluid.build.backend import MISSED
from refluid.eager.calls import OperatorCall
from refluid.eager.direct import Direct, usable
from refluid.eager.keys import NUMBER, key_of
from refluid.eager.results import Asked, Run
from refluid.eager.tensor import VarBase

_LISTS = (list, tuple)
_MOST = 4096  # calls that are kept
_UNSEEN: Any = object()


class Shortcuts:
    """Calls by their keys (`keys.key_of`).

    A call that wasn't seen is missed, and learned from once it was done by its plan. One that
    differs from others only in attributes that are numbers is made from them.
    """

    def __init__(self) -> None:
        self._known: dict[Any, Run | None] = {}
        self._alike: dict[Any, Direct] = {}
        self._new: tuple[list[Any], bool, list[Any], Asked] | None = None
        self.wanted = True

    def call(
        self,
        type: str,
        inputs: Mapping[str, Any] | None,
        attrs: Mapping[str, Any] | None,
        makes: Any,
        how: Mapping[str, Any],
    ) -> Any:
        """The results of a call; MISSED where it has to be done by its plan."""
        values: list[Any] = []
        try:
            key, takes, numbers = key_of(type, inputs, attrs, makes, how, values)
            takes = takes and torch.is_grad_enabled()
            key.append(takes)
            found = self._known.get(tuple(key), _UNSEEN)
            if found is _UNSEEN:
                found = self._like(key, attrs or {}) if numbers else None
                if found is None:
                    given = [(slot, _count(one)) for slot, one in (inputs or {}).items()]
                    asked = Asked(given, makes, how.get("stop_gradient", False), takes)
                    self._new = key, numbers, values, asked
            return MISSED if found is None else found(values, makes)
        except Exception:  # its plan says what is wrong
            return MISSED

    def _like(self, key: list[Any], attrs: Mapping[str, Any]) -> Run | None:
        former = self._alike.get(_without_numbers(key))
        if former is None or not former.differs_in_numbers(attrs):
            return None
        made = former.with_numbers(attrs).run
        _keep(self._known, tuple(key), made)
        return made

    def learn(self, call: OperatorCall, variables: Sequence[VarBase]) -> None:
        """Takes note of a call that was missed and is done by its plan now."""
        if self._new is None:
            return
        (key, numbers, values, asked), self._new = self._new, None
        flat = [one for part in values for one in (part if isinstance(part, list) else (part,))]
        tensors = [one for one in flat if one is not None]
        if [*map(id, tensors)] != [id(var._value) for var in variables]:
            return
        if not usable(call, asked):
            _keep(self._known, tuple(key), None)
            return
        made = Direct(call, asked)
        _keep(self._known, tuple(key), made.run)
        if numbers:
            _keep(self._alike, _without_numbers(key), made)

    def forget(self) -> None:
        """Starts anew."""
        self._known.clear()
        self._alike.clear()


def _without_numbers(key: list[Any]) -> tuple[Any, ...]:
    """The key of all calls that differ in numbers alone: what stands before them, and the names."""
    first = key.index(NUMBER)
    return (*key[: first + 1], *key[first + 1 : -1 : 2], key[-1])


def _keep(known: dict[Any, Any], key: Any, made: Any) -> None:
    if len(known) >= _MOST:
        del known[next(iter(known))]
    known[key] = made


def _count(given: Any) -> int | None:
    return None if given is None else len(given) if isinstance(given, _LISTS) else -1
