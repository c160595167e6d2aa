"""What all trainers bring to one server: barriers, and what is computed over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import Any

from refluid.core.errors import EnforceNotMet
from refluid.pserver.members import TrainerRoll, listed


class Gathers:
    """Arrays that each trainer is handed once the last has brought its own, by their sequence.

    Trainers that are there but wait for the gradients of those who wait here would do so for ever:
    after `FLAGS_rpc_deadline` that is an error.
    """

    def __init__(self, members: TrainerRoll) -> None:
        self._members = members
        self._brought: dict[int, dict[int, Any]] = {}
        # Who trained when everybody was first seen to wait, after how many pushes, and when.
        self._still: tuple[Set[int], int] | None = None
        self._since = 0.0

    def bring(self, sequence: int, trainer: int, value: Any) -> bool:
        """Takes a trainer's array; False where it has brought one before."""
        held = self._brought.setdefault(sequence, {})
        new = trainer not in held
        held.setdefault(trainer, value)
        return new

    def complete(self, sequence: int) -> bool:
        """Whether nobody is waited for any more."""
        return self._members.awaited <= self._brought[sequence].keys()

    def handed_out(self, sequence: int) -> list[tuple[str, Any]]:
        """The arrays, named by the trainers' numbers. Who asks for these has those before."""
        self._brought.pop(sequence - 2, None)
        return [(str(number), value) for number, value in sorted(self._brought[sequence].items())]

    def clear(self) -> None:
        """Drops all that was brought."""
        self._brought.clear()

    def __iter__(self) -> Iterator[tuple[int, int, Any]]:
        """(sequence, trainer, array) of each that is kept."""
        for sequence, held in self._brought.items():
            for trainer, value in held.items():
                yield sequence, trainer, value

    def require_progress(self, sequence: int, holds: Callable[[int], int], pushes: int) -> None:
        """EnforceNotMet where the others can't come, and long haven't.

        holds: the push of a trainer that waits for others'. pushes: how many were applied so far.
        """
        members, here = self._members, self._brought[sequence].keys()
        stepping = frozenset(one for one in members.there - here if holds(one))
        if not stepping or members.awaited - here != stepping:
            self._still = None
        elif self._still != (stepping, pushes):
            self._still, self._since = (stepping, pushes), members.now
        elif members.now - self._since >= members.deadline:
            raise EnforceNotMet(
                f"trainers {listed(here & members.there)} wait for all trainers, as at a barrier, "
                f"while {listed(stepping)} wait for their gradients in a step of synchronous "
                f"training, and nothing happened for {members.deadline:g} s (FLAGS_rpc_deadline); "
                "all trainers must take equally many steps before they wait for one another"
            )
