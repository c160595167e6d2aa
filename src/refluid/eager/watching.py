"""Operators that run at once, watched: what each takes, and whether what it makes is finite.

The profiler's log gets an event per operator, and one per operator whose gradient is computed;
`FLAGS_check_nan_inf` looks at the values of both. Nothing of it costs anything otherwise: calls
take no shortcuts only while they are watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.core import events, flags
from refluid.core.errors import EnforceNotMet
from refluid.eager.calls import OperatorCall
from refluid.ir.names import GRAD
from refluid.runtime.instrument import mark_on
from refluid.runtime.nonfinite import require_finite
from refluid.runtime.watched import Watched

_LEAF = "torch::autograd::AccumulateGrad"


def checks() -> bool:
    """Whether flags ask for finite values."""
    return bool(flags.value("check_nan_inf") or flags.value("fast_check_nan_inf"))


def watched_call(
    call: OperatorCall, owners: Sequence[Any], names: Iterable[str], given: tuple[Any, Any, Any]
) -> Any:
    """`call.run(*given, owners)`, watched. names: of the variables that get what it makes.

    EnforceNotMet where a value isn't finite and flags ask for that.
    """
    log, watched = events.taking(), Watched((call.op,), tuple(names))
    begin, before = events.clock(), mark_on(call.device)
    found, lods = call.run(*given, owners)
    if log is not None:
        _note(log, watched, begin, (before, mark_on(call.device)))
    _require_finite(watched, found)
    if call.gradients:
        _watch_gradient(call, owners, given[0], found)
    return found, lods


def _require_finite(watched: Watched, values: Sequence[Any]) -> None:
    if not checks():
        return
    try:
        require_finite(watched, values)
    except EnforceNotMet as error:
        raise EnforceNotMet(f"operator {watched.name} failed: {error}") from None


def _note(log: events.Log, watched: Watched, begin: int, marks: tuple[Any, Any]) -> events.Event:
    kept = None if marks[0] is None else marks
    event = events.Event(
        watched.name, watched.kind, log.thread(), begin, events.clock(), about=watched, marks=kept
    )
    log.events.append(event)
    return event


class _GradientNodes:
    """The nodes of autograd that compute one operator's gradient, one after the other."""

    def __init__(self, watched: Watched, device: torch.device) -> None:
        self._watched, self._device = watched, device
        self._event: events.Event | None = None
        self._log: events.Log | None = None
        self._begun: set[int] = set()
        self._begin, self._mark = 0, None

    def before(self, number: int) -> None:
        """A node is about to run; one that ran already does so for another pass."""
        if number in self._begun or not self._begun:
            self._begun, self._event, self._log = set(), None, events.taking()
            self._begin, self._mark = events.clock(), mark_on(self._device)
        self._begun.add(number)

    def after(self, made: Sequence[Any]) -> None:
        """A node has run."""
        if self._log is not None and self._event is None:
            marks = self._mark, mark_on(self._device)
            self._event = _note(self._log, self._watched, self._begin, marks)
        elif self._event is not None:
            self._event.end = events.clock()
            if self._event.marks:
                self._event.marks = self._mark, mark_on(self._device)
        values = [one for one in made if isinstance(one, Tensor)]
        names = (self._watched.result,) * len(values)
        _require_finite(Watched(self._watched.ops, names), values)


def _watch_gradient(
    call: OperatorCall, owners: Sequence[Any], feeds: Sequence[Any], found: Sequence[Any]
) -> None:
    ops = call.whole.block.ops if call.whole else (call.op,)
    taking = [var.name for var, one in zip(owners, feeds, strict=True) if _takes_gradient(one)]
    watched = Watched(tuple(ops[:1]), tuple(name + GRAD for name in taking[:1]))
    gradient = _GradientNodes(watched, call.device)
    ends = {one.grad_fn for one in _tensors(feeds)}
    for number, node in enumerate(_between(found, ends)):
        node.register_prehook(lambda _, number=number: gradient.before(number))
        node.register_hook(lambda made, _: gradient.after(made))


def _between(found: Sequence[Any], ends: set[Any]) -> Iterator[Any]:
    """The nodes that lead from results to what an operator was given, each once."""
    waiting, seen = [one.grad_fn for one in _tensors(found)], set(ends)
    while waiting:
        node = waiting.pop()
        if node is None or node in seen or node.name() == _LEAF:
            continue
        seen.add(node)
        yield node
        waiting.extend(one for one, _ in node.next_functions)


def _takes_gradient(value: Any) -> bool:
    return any(one.requires_grad for one in _tensors((value,)))


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for one in values:
        if isinstance(one, Tensor):
            yield one
        elif isinstance(one, list | tuple):
            yield from _tensors(one)
