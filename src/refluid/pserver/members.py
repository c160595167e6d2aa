"""The trainers of a server: who is there, whose lease ended, which of their pushes were applied."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from refluid.pserver.figures import NO_FIGURES, TrainerFigures
from refluid.pserver.marks import PushMarks
from refluid.pserver.refusals import CallRefused, NotEntered

_LOGGER = logging.getLogger("refluid")


@dataclass
class Member:
    """One trainer. session: of its process, anew when it restarts. marks: its last push.

    ended: the number of the call that ended its last pass. figures: what it told of itself last.
    left: it said that it ends.
    """

    session: int
    marks: PushMarks = field(default_factory=PushMarks)
    ended: int = 0
    seen: float = 0.0
    there: bool = True
    figures: TrainerFigures = NO_FIGURES
    left: bool = False


class TrainerRoll:
    """All trainers of a job, by number. All times are in seconds.

    expected: how many there are in all. lease: for how long one counts that isn't heard of.
    patience: for how long one may be back that didn't leave, as behind a link that is down. clock:
    what time it is.
    """

    def __init__(
        self, expected: int, lease: float, clock: Callable[[], float], patience: float = 0.0
    ) -> None:
        self.expected, self.lease, self._clock = expected, lease, clock
        self.patience = max(patience, lease)
        self.known: dict[int, Member] = {}
        self._former: dict[int, set[int]] = {}

    def enter(self, trainer: int, session: int) -> Member:
        """A trainer that begins, or is back.

        CallRefused for a number that the job lacks, and for who was followed by another process.
        """
        if not 0 <= trainer < self.expected:
            raise CallRefused(f"trainer {trainer} is none of the job's {self.expected} trainers")
        member = self.known.get(trainer)
        if session in self._former.get(trainer, ()):
            raise CallRefused(f"another process is trainer {trainer} now")
        if member is None or member.session != session:
            if member is not None:
                _LOGGER.info("trainer %d begins anew", trainer)
                self._former.setdefault(trainer, set()).add(member.session)
            member = self.known[trainer] = Member(session)
        member.seen, member.there, member.left = self._clock(), True, False
        return member

    def heard(self, trainer: int, session: int) -> Member:
        """A trainer that calls. NotEntered where it never entered, or began anew since.

        One that said that it ends stays away: what it sent before may come after, by another
        connection.
        """
        member = self.known.get(trainer)
        if member is None or member.session != session:
            raise NotEntered(f"trainer {trainer} hasn't entered by this session")
        member.seen = self._clock()
        if not (member.there or member.left):
            _LOGGER.info("trainer %d is back", trainer)
            member.there = True
        return member

    def leave(self, trainer: int, session: int, *, lost: bool = False) -> None:
        """A trainer that ends, or whose lease ended."""
        member = self.known.get(trainer)
        if member is not None and member.session == session:
            member.there, member.left = False, not lost
            _LOGGER.info("trainer %d %s", trainer, "is lost" if lost else "left")

    def expire(self) -> list[int]:
        """Takes out those whose lease ended; their numbers."""
        latest = self._clock() - self.lease
        gone = [number for number, one in self.known.items() if one.there and one.seen < latest]
        for number in gone:
            self.known[number].there = False
            _LOGGER.warning(
                "trainer %d wasn't heard of for %.0f s: training goes on without it",
                number,
                self.lease,
            )
        return gone

    @property
    def now(self) -> float:
        """What time it is."""
        return self._clock()

    @property
    def there(self) -> frozenset[int]:
        """Those that train now."""
        return frozenset(number for number, one in self.known.items() if one.there)

    @property
    def awaited(self) -> frozenset[int]:
        """Those that train now, and those that never came."""
        new = set(range(self.expected)) - self.known.keys()
        return self.there | new

    @property
    def over(self) -> bool:
        """Whether all came and all are gone: they left, or have given up by now."""
        if len(self.known) < self.expected or self.there:
            return False
        lost = [one.seen for one in self.known.values() if not one.left]
        return not lost or max(lost) < self._clock() - self.patience
