"""Whether operators run at once, and where."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from refluid.build import backend, using
from refluid.core.places import Place
from refluid.eager.backend import Eager

_entered: ExitStack | None = None
_backends: dict[str, Eager] = {}


def current() -> Eager | None:
    """The backend that runs operators; None while they are appended to programs."""
    now = backend()
    return now if isinstance(now, Eager) else None


def on(place: Place) -> Eager:
    """The backend of a place."""
    key = str(place.device)
    return _backends.setdefault(key, Eager(place))


@contextmanager
def eager(place: Place) -> Iterator[None]:
    """Operators run at once on `place`, at first as in training."""
    place_backend = on(place)
    former, place_backend.training = place_backend.training, True
    try:
        with using(place_backend):
            yield
    finally:
        place_backend.training = former


def train(training: bool) -> None:
    """Operators do as in training from here on, or as in inference; nothing in programs."""
    now = current()
    if now is not None:
        now.training = training


def enter(place: Place) -> None:
    """Operators run at once on `place` until `leave`."""
    global _entered
    leave()
    _entered = ExitStack()
    _entered.enter_context(eager(place))


def leave() -> None:
    """Operators are appended to programs again."""
    global _entered
    if _entered is not None:
        _entered.close()
        _entered = None
