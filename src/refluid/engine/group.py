"""`Group`: where programs run, one place for each replica, and what was made for them."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.comm import ALONE, Communicator
from refluid.comm.world import attended, world
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
    programs in any scope. trainers: the processes that have such replicas; where there are no
    scopes, those of the job at the time, with whom programs exchange what they say themselves.
    agreed: the programs that all trainers have alike.
    """

    def __init__(
        self,
        places: Sequence[Place],
        scopes: Sequence[Scope] = (),
        trainers: Communicator = ALONE,
    ) -> None:
        self.places = list(places)
        self.devices = [place.device for place in places]
        self.scopes = list(scopes)
        self.replicas = Replicas(len(places)) if scopes else None
        self._trainers = trainers
        self._members = _members(self.replicas, trainers)
        self.held = Shared()
        self.cache, self.agreed = Cache(), Cache()
        self._now: tuple[tuple[int, Communicator, Instruments], Strategy, Conditions] | None = None
        self._known: dict[Conditions, Conditions] = {}

    def member(self, rank: int) -> Communicator:
        """By which a replica reaches the others."""
        return self._members[rank] if self._members else self.trainers

    @property
    def trainers(self) -> Communicator:
        """The processes that train together."""
        return self._trainers if self._members else world()

    def conditions(self, strategy: Strategy) -> Conditions:
        """Those of now: the same object as long as they are equal."""
        told = flags.state(), self.trainers, instruments()
        now = self._now
        if now is None or now[0] != told or now[1] is not strategy:
            _, trainers, watched = told
            alone = self.replicas is None
            found = conditions(strategy, self.devices, watched, trainers, alone=alone)
            found = self._known.setdefault(found, found)
            self._now = now = told, strategy, found
        return now[2]


def _members(replicas: Replicas | None, trainers: Communicator) -> list[Communicator]:
    """By which each replica reaches all others."""
    if replicas is None:
        return []
    row = [replicas.group.member(rank) for rank in range(replicas.size)]
    if trainers.size == 1:
        return row
    if replicas.size == 1:
        return [attended(trainers)]
    from refluid.comm.grid import ReplicaGrid  # most programs have one trainer

    columns = [trainers.split(0) for _ in row]
    pairs = zip(row, columns, strict=True)
    return [ReplicaGrid(one, attended(column)) for one, column in pairs if column]
