"""The trainers of a server: who is there, whose lease ended, which of their pushes were applied."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from refluid.pserver.figures import NO_FIGURES, TrainerFigures
from refluid.pserver.marks import PushMarks
from refluid.pserver.refusals import CallRefused, NotEntered

_LOGGER = logging.getLogger("refluid")
NOBODY = 0  # the session of a trainer that never came
_START = (
    "Its log says why, if it was started; trainers are told who they are by PADDLE_TRAINER_ID or "
    "by the first argument of transpile"
)
_AWAITED = (
    "trainer %s hasn't come (%s, the first one for %.0f s): what needs all trainers waits for it "
    f"until that has been %g s (FLAGS_rpc_deadline). {_START}"
)
_NEVER = (
    "trainer %s never came in %g s (FLAGS_rpc_deadline, in milliseconds, of servers; %s): training "
    f"goes on without it, and it may still come. {_START}"
)


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
    deadline: for how long the first one waits for the others; the lease unless given. patience: for
    how long one may be back that didn't leave, as behind a link that is down: the deadline, and the
    lease at least. clock: what time it is.
    """

    def __init__(
        self, expected: int, lease: float, clock: Callable[[], float], deadline: float = 0.0
    ) -> None:
        self.expected, self.lease, self._clock = expected, lease, clock
        self.deadline = deadline or lease
        self.patience = max(deadline, lease)
        self.known: dict[int, Member] = {}
        self._former: dict[int, set[int]] = {}
        self._begun: float | None = None
        self._told = False

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
            if member is not None and member.session != NOBODY:
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
        if member is None or member.session != session or session == NOBODY:
            raise NotEntered(f"trainer {trainer} hasn't entered by this session")
        member.seen = self._clock()
        if not (member.there or member.left):
            _LOGGER.info("trainer %d is back", trainer)
            member.there = True
        return member

    def leave(self, trainer: int, session: int, *, lost: bool = False) -> None:
        """A trainer that ends, whose lease ended, or that never came (of the session NOBODY)."""
        if lost and session == NOBODY and trainer in self._missing:
            self.known[trainer] = Member(NOBODY, seen=self._clock())
        member = self.known.get(trainer)
        if member is not None and member.session == session:
            member.there, member.left = False, not lost
            _LOGGER.info("trainer %d %s", trainer, "is lost" if lost else "left")

    def expire(self) -> list[int]:
        """Takes out those whose lease ended, or that never came; their numbers."""
        latest = self._clock() - self.lease
        gone = [number for number, one in self.known.items() if one.there and one.seen < latest]
        for number in gone:
            self.known[number].there = False
            _LOGGER.warning(
                "trainer %d wasn't heard of for %.0f s: training goes on without it",
                number,
                self.lease,
            )
        return gone + self._give_up()

    def _give_up(self) -> list[int]:
        """Takes out those that never came, long after the first one did."""
        now = self._clock()
        if self._begun is None:
            self._begun = now if self.known else None
        never = sorted(self._missing)
        if self._begun is None or not never:
            return []
        waited = now - self._begun
        if waited < self.deadline:
            if waited >= min(self.lease, self.deadline / 2) and not self._told:
                self._told = True
                _LOGGER.warning(_AWAITED, listed(never), self._there, waited, self.deadline)
            return []
        _LOGGER.warning(_NEVER, listed(never), self.deadline, self._there)
        for number in never:
            self.leave(number, NOBODY, lost=True)
        return never

    def begin_anew(self) -> None:
        """After a job that ended: all are awaited as at its begin."""
        self.known.clear()
        self._begun, self._told = None, False

    @property
    def _there(self) -> str:
        """Who is there, for the log."""
        return f"{listed(self.there) or 'nobody'} of {self.expected} here"

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
        return self.there | self._missing

    @property
    def _missing(self) -> frozenset[int]:
        """Those that never came, and are waited for."""
        return frozenset(range(self.expected)) - self.known.keys()

    @property
    def over(self) -> bool:
        """Whether all are gone that came: they left, or have given up by now."""
        if self.awaited:
            return False
        lost = [one.seen for one in self.known.values() if not one.left]
        return not lost or max(lost) < self._clock() - self.patience


def listed(trainers: Collection[int]) -> str:
    """Their numbers, for a message."""
    return ", ".join(map(str, sorted(trainers)))
