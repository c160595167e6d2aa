"""`Group`: where programs run, one place for each replica, and what was made for them."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.comm import ALONE, Communicator
from refluid.core import flags
from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.engine.cache import Cache
from refluid.engine.conditions import Conditions, conditions
from refluid.engine.strategy import Strategy
from refluid.runtime.batched.shared import Shared
from refluid.runtime.instrument import instruments
from refluid.runtime.replicas import Replicas
from refluid.runtime.request import Instruments


class Group:
    """The places of replicas, their threads and scopes, and the one cache of what they run.

    scopes: one for each replica, replica 0's is the user's; none for a single place that runs
    programs in any scope.
    """

    def __init__(self, places: Sequence[Place], scopes: Sequence[Scope] = ()) -> None:
        self.places = list(places)
        self.devices = [place.device for place in places]
        self.scopes = list(scopes)
        self.replicas = Replicas(len(places)) if scopes else None
        self.held = Shared()
        self.cache = Cache()
        self._now: tuple[int, Strategy, Instruments, Conditions] | None = None
        self._known: dict[Conditions, Conditions] = {}

    def member(self, rank: int) -> Communicator:
        """By which a replica reaches the others."""
        return ALONE if self.replicas is None else self.replicas.group.member(rank)

    def conditions(self, strategy: Strategy) -> Conditions:
        """Those of now: the same object as long as they are equal."""
        state, watched, now = flags.state(), instruments(), self._now
        if now is None or now[0] != state or now[1] is not strategy or now[2] != watched:
            alone = self.replicas is None
            found = conditions(strategy, self.devices, watched, alone=alone)
            found = self._known.setdefault(found, found)
            self._now = now = state, strategy, watched, found
        return now[3]
