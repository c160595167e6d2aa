"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sign:
    """fact: in words. advice: what to do; empty where all is well. figures: the same for machines.

    measured figures are in the unit that their name ends with.
    """

    topic: str
    fact: str
    advice: str = ""
    figures: dict[str, float | str] = field(default_factory=dict)

    @property
    def is_well(self) -> bool:
        """Whether there is nothing to do."""
        return not self.advice
