"""Recordings of one plan for several sizes as one: steps in common, and a row for each size."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace as with_fields
from typing import Any

import torch
from torch import Tensor

from refluid.runtime.recorded.graph import Entry, Kernel, Line, Part, Value, equal
from refluid.runtime.recorded.record import Refused, StepRecording
from refluid.runtime.trees import mapped

# The shapes of all that is fed.
Sizes = tuple[torch.Size, ...]


def sizes_of(feeds: Sequence[Tensor]) -> Sizes:
    """The shapes by which a row is found."""
    return tuple([feed.shape for feed in feeds])


class Table:
    """Recordings that call the same kernels and differ in numbers: a row of numbers for each size.

    Shapes decide which kernels a step calls and with which numbers, so a row is right for as long
    as the same shapes are fed. A size that was never recorded has no row: nothing is interpolated.
    """

    def __init__(self, recording: StepRecording, sizes: Sizes) -> None:
        self._common = recording
        self.rows: dict[Sizes, tuple[Any, ...]] = {sizes: ()}

    def add(self, recording: StepRecording, sizes: Sizes) -> bool:
        """Takes one more size. Whether `recording` is another one now.

        Raises Refused, and stays as it was, where the recording differs in more than numbers.
        """
        overlay = _Overlay()
        common = overlay.laid(self._common, recording)
        if overlay.former == [Entry(number) for number in range(len(overlay.former))]:
            self.rows[sizes] = tuple(overlay.row)
            return False
        for known, row in self.rows.items():
            self.rows[known] = tuple(
                row[one.position] if isinstance(one, Entry) else one for one in overlay.former
            )
        self.rows[sizes] = tuple(overlay.row)
        self._common = common
        return True

    @property
    def recording(self) -> StepRecording:
        """The steps for all sizes in the table: where those differ stands an `Entry` of the row.

        A copy, since what is found out about its values holds for the sizes there are now.
        """
        copies: dict[Value, Value] = {}

        def leaf(one: Any) -> Any:
            if not isinstance(one, Value):
                return one
            if one not in copies:
                copies[one] = with_fields(one, layout=None)
            return copies[one]

        steps: list[Part] = []
        for step in self._common.steps:
            if isinstance(step, Kernel):
                args, kwargs, outs = mapped((step.args, step.kwargs, step.outs), leaf)
                steps.append(with_fields(step, args=args, kwargs=kwargs, outs=outs))
            else:
                loads, stores = mapped((step.loads, step.stores), leaf)
                steps.append(with_fields(step, loads=loads, stores=stores))
        return StepRecording(steps, mapped(self._common.names, leaf), self._common.refused)

    def __str__(self) -> str:
        """The shapes, with the range of those sizes that change: [6 to 8, 3 to 59], [6 to 8, 1]."""
        texts = []
        for shapes in zip(*self.rows, strict=True):
            ends = [(min(column), max(column)) for column in zip(*shapes, strict=True)]
            texts.append(", ".join(f"{a} to {b}" if a < b else str(a) for a, b in ends))
        return ", ".join(f"[{text}]" for text in texts)


class _Overlay:
    """Lays a recording over what others have in common.

    former: for each entry of the row now, the entry or the number it was before. row: the new
    recording's.
    """

    def __init__(self) -> None:
        self.former: list[Any] = []
        self.row: list[Any] = []
        self._entries: dict[tuple[Any, ...], Entry] = {}
        self._values: dict[Value, tuple[Value, Value]] = {}
        self._taken: set[Value] = set()
        self._storages: dict[int | None, int | None] = {None: None}
        self._taken_storages: set[int | None] = {None}

    def laid(self, common: StepRecording, new: StepRecording) -> StepRecording:
        """What both have in common. Raises Refused where they differ in more than numbers."""
        if len(common.steps) != len(new.steps):
            raise Refused("it does something else for another size")
        steps = [self._step(*both) for both in zip(common.steps, new.steps, strict=True)]
        return StepRecording(steps, self._tree(common.names, new.names), common.refused)

    def _step(self, common: Part, new: Part) -> Part:
        if isinstance(common, Kernel) and isinstance(new, Kernel) and common.func is new.func:
            parts = [(one.args, one.kwargs, one.outs) for one in (common, new)]
            args, kwargs, outs = together = self._tree(*parts)
            if together is parts[0]:
                return common
            return with_fields(common, args=args, kwargs=kwargs, outs=outs)
        if isinstance(common, Line) and isinstance(new, Line):
            if common.step is not new.step:
                raise Refused("it does something else for another size")
            names = (common.loads, common.stores)
            loads, stores = together = self._tree(names, (new.loads, new.stores))
            if together is names:
                return common
            return with_fields(common, loads=loads, stores=stores)
        raise Refused("it does something else for another size")

    def _tree(self, common: Any, new: Any) -> Any:
        """The common tree itself where nothing in it changes."""
        if isinstance(common, Value) and isinstance(new, Value):
            return self._value(common, new)
        nested = isinstance(common, list | tuple | dict)
        if nested and type(common) is type(new) and len(common) == len(new):
            if isinstance(common, dict):
                if common.keys() == new.keys():
                    laid = {key: self._tree(common[key], new[key]) for key in common}
                    same = all(laid[key] is common[key] for key in common)
                    return common if same else laid
            else:
                parts = list(map(self._tree, common, new))
                same = all(map(operator.is_, parts, common))
                return common if same else type(common)(parts)
        elif not nested and not isinstance(new, list | tuple | dict | Value):
            return self._leaf(common, new)
        raise Refused("a call is nested otherwise for another size")

    def _leaf(self, common: Any, new: Any) -> Any:
        if not isinstance(common, Entry) and _identical(common, new):
            return common
        return self._entry(common, new, (type(new), repr(new)))

    def _entry(self, common: Any, new: Any, identity: tuple[Any, ...]) -> Entry:
        former = common if isinstance(common, Entry) else (type(common), repr(common))
        key = former, *identity
        if key not in self._entries:
            self._entries[key] = Entry(len(self.row))
            self.former.append(common)
            self.row.append(new)
        return self._entries[key]

    def _value(self, common: Value, new: Value) -> Value:
        if common not in self._values:
            known = self._storages.setdefault(common.storage, new.storage)
            fresh = new.storage not in self._taken_storages or known == new.storage
            if known != new.storage or new in self._taken or not fresh:
                raise Refused("it shares memory otherwise for another size")
            self._taken.add(new)
            self._taken_storages.add(new.storage)
            constant = self._constant(common, new)
            same = constant is common.constant
            self._values[common] = new, common if same else with_fields(common, constant=constant)
        counterpart, copy = self._values[common]
        if counterpart is not new:
            raise Refused("its values follow from each other otherwise for another size")
        return copy

    def _constant(self, common: Value, new: Value) -> Any:
        """A constant that differs is an entry of its own: its numbers are not compared again."""
        if not isinstance(common.constant, Entry) and equal(common.constant, new.constant):
            return common.constant
        if common.constant is None or new.constant is None:
            raise Refused("a value is constant for one size only")
        return self._entry(common.constant, new.constant, (id(new.constant),))


def _identical(one: Any, other: Any) -> bool:
    """Whether two numbers are the same bits, or two other things equal."""
    if type(one) is not type(other):
        return False
    return repr(one) == repr(other) if isinstance(one, float) else bool(one == other)
