"""Several processes of a script that train together, each at its gate, asked as one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from refluid.collective.launch.cluster import Cluster
from refluid.collective.launch.servers import ServerJob, addresses_of
from refluid.core.ports import free_port
from refluid.core.whole_threads import all_done
from refluid.engine.choices import NONE, Choices
from refluid.tune.living import Life
from refluid.tune.session import Script, Session

_HOST = "127.0.0.1"
T = TypeVar("T")


class AtGate(Protocol):
    """A script at its gate, in one process or in several."""

    @property
    def life(self) -> Life:
        """Of the loop; of several trainers that of the slowest, for whom the others wait."""

    @property
    def first(self) -> Life:
        """Of the first steps."""

    @property
    def lives(self) -> Sequence[Life]:
        """Of all trainers, by rank."""

    def ask(
        self, do: str, choices: Choices = NONE, within: float = math.inf, **more: Any
    ) -> dict[str, Any]:
        """As `Session.ask`."""

    def go(self, choices: Choices, steps: int = 0, within: float = math.inf) -> Life:
        """As `Session.go`."""

    def close(self) -> None:
        """Ends the script."""


def at_gate(script: Script, choices: Choices = NONE, within: float = math.inf) -> AtGate:
    """Starts a script, and waits until it is at its gate. NoLoop where it doesn't come there in so
    many seconds."""
    if not script.is_alone:
        return Trainers(script, choices, within)
    session = Session(script, choices, within)
    session.arrive()
    return session


class Trainers:
    """One session for each trainer; all are asked the same at the same time, as they exchange.

    Servers of tables, if there are any, are started with them. Where one fails all are ended: the
    others would wait for it.
    """

    def __init__(self, script: Script, choices: Choices = NONE, within: float = math.inf) -> None:
        self._sessions: list[Session] = []
        self._servers: list[Session] = []
        servers, trainers = _environments(script)
        try:
            for more in servers:
                self._servers.append(Session(script, choices, within, more, gated=False))
            for more in trainers:
                self._sessions.append(Session(script, choices, within, more))
            self._of_each(Session.arrive)
        except BaseException:
            self.close()
            raise

    @property
    def lives(self) -> Sequence[Life]:
        """As of `AtGate`."""
        return [one.life for one in self._sessions]

    @property
    def life(self) -> Life:
        """As of `AtGate`."""
        return max(self.lives, key=lambda one: one.own)

    @property
    def first(self) -> Life:
        """As of `AtGate`; losses are means over all trainers."""
        firsts = [one.first for one in self._sessions]
        losses = [_mean(each) for each in zip(*(one.losses for one in firsts), strict=False)]
        return replace(firsts[0], losses=losses)

    def ask(
        self, do: str, choices: Choices = NONE, within: float = math.inf, **more: Any
    ) -> dict[str, Any]:
        """What the first trainer answers. Of steps that are run again: the longest time of each,
        and the mean of all losses. TrialFailed where one fails."""
        found = self._of_each(lambda one: one.ask(do, choices, within, **more))
        if do != "replay":
            return found[0]
        return {
            **found[0],
            "seconds": [max(each) for each in zip(*(one["seconds"] for one in found), strict=True)],
            "losses": [_mean(each) for each in zip(*(one["losses"] for one in found), strict=True)],
            "peak": max(one["peak"] for one in found),
        }

    def go(self, choices: Choices, steps: int = 0, within: float = math.inf) -> Life:
        """Lets all loops go on, as far as the same step."""
        lives = self._of_each(lambda one: one.go(choices, steps, within))
        return max(lives, key=lambda one: one.period)

    def _of_each(self, does: Callable[[Session], T]) -> list[T]:
        return all_done(does, self._sessions, len(self._sessions), self._end_all)

    def _end_all(self) -> None:
        for one in (*self._sessions, *self._servers):
            one.end()

    def close(self) -> None:
        """Ends all."""
        for one in (*self._sessions, *self._servers):
            one.close()


def _environments(script: Script) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """What servers and trainers find in theirs, as launchers set it."""
    count = script.trainers
    port = free_port(script.servers + count + 1)
    if not script.servers:
        cluster = Cluster((_HOST,), _HOST, port, ("",) * count)
        return [], [cluster.environment(rank) for rank in range(count)]
    addresses = addresses_of(None, script.servers + count, port, [_HOST])
    job = ServerJob(addresses[: script.servers], addresses[script.servers :])
    return [job.environment(one) for one in job.servers], [
        job.environment(one) for one in job.workers
    ]


def _mean(losses: Sequence[float]) -> float:
    return sum(losses) / len(losses)
