"""What tests of choices between several threads and one have in common."""

from __future__ import annotations

from collections.abc import Mapping

# The flags by each of which nothing is chosen: threads are as they were asked for.
AS_ASKED: tuple[Mapping[str, bool], ...] = (
    {"FLAGS_refluid_adaptive_threads": False},
    {"FLAGS_cpu_deterministic": True},
)


class Clock:
    """It stands still at `now`, in seconds."""

    now = 0.0

    def __call__(self) -> float:
        return self.now
