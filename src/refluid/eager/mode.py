"""Whether operators run at once, and where."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from refluid.build import backend, using
from refluid.core.places import Place
from refluid.eager.backend import Eager
from refluid.eager.casting import Casts
from refluid.eager.waiting import waiting

_entered: ExitStack | None = None
_backends: dict[str, Eager] = {}
_casting: Casts | None = None


def current() -> Eager | None:
    """The backend that runs operators; None while they are appended to programs."""
    now = backend()
    return now if isinstance(now, Eager) else None


def on(place: Place, promotes: bool = False) -> Eager:
    """The backend of a place. promotes: whole numbers become float32 as in Paddle 2."""
    key = f"{place.device} {promotes}"
    if key not in _backends:
        _backends[key] = Eager(place, promotes)
        _backends[key].casting = _casting
    return _backends[key]


@contextmanager
def eager(place: Place) -> Iterator[None]:
    """Operators run at once on `place`, at first as in training."""
    place_backend = on(place)
    former, place_backend.training = place_backend.training, True
    try:
        with using(place_backend):
            try:
                yield
            finally:
                waiting.happen()
    finally:
        place_backend.training = former


def cast_by(casts: Casts | None) -> None:
    """All operators that run at once from here on take their inputs as it says; None: as given."""
    global _casting
    _casting = casts
    for one in _backends.values():
        one.casting = casts


def train(training: bool) -> None:
    """Operators do as in training from here on, or as in inference; nothing in programs."""
    now = current()
    if now is not None:
        now.training = training


def enter(place: Place, promotes: bool = False) -> None:
    """Operators run at once on `place` until `leave`. promotes: as of `on`."""
    global _entered
    leave()
    _entered = ExitStack()
    _entered.enter_context(using(on(place, promotes)))


def leave() -> None:
    """Operators are appended to programs again."""
    global _entered
    if _entered is not None:
        _entered.close()
        _entered = None
