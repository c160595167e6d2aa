"""What is to run on a cluster of Ray: trainers, and servers of tables beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from refluid.collective.launch.logs import log_file, server_log
from refluid.collective.launch.servers import ServerJob
from refluid.core.errors import EnforceNotMet
from refluid.core.flags import whole_environment

# Settings of this process that those on other hosts find too.
_OURS = "REFLUID_"
_KEPT = "REFLUID_SERVER_CHECKPOINTS"
PLACEMENTS = ("spread", "packed")


@dataclass(frozen=True)
class RayJob:
    """size: how many trainers, beside so many servers of tables. placement: spread or packed.

    address: of a cluster that runs; None for one on this machine alone. seconds: how long to wait
    for room. gpus: of each trainer.
    """

    arguments: Sequence[str]
    size: int
    placement: str = "spread"
    address: str | None = None
    gpus: float = 0
    cpus: float = 1
    seconds: float = 300.0
    environment: tuple[tuple[str, str], ...] = ()
    servers: int = 0

    def __post_init__(self) -> None:
        if self.placement not in PLACEMENTS:
            raise EnforceNotMet(f"--placement is {' or '.join(PLACEMENTS)}, not {self.placement}")

    @property
    def processes(self) -> int:
        """All of them: trainers by their numbers, then servers."""
        return self.size + self.servers

    @property
    def keeps(self) -> bool:
        """Whether servers keep checkpoints, from which one goes on elsewhere."""
        found = {**whole_environment(), **dict(self.environment)}
        return bool(self.servers and found.get(_KEPT))

    def name(self, number: int) -> str:
        """Of a process."""
        trainer = number < self.size
        return f"trainer {number}" if trainer else f"server {number - self.size}"

    def log(self, folder: Path, number: int) -> Path:
        """Where a process writes."""
        trainer = number < self.size
        return log_file(folder, number) if trainer else server_log(folder, number - self.size)

    def told(self, endpoints: Sequence[str], number: int, attempt: int) -> dict[str, str]:
        """What a process finds in its environment, given where each is."""
        settings = {
            name: value for name, value in whole_environment().items() if name.startswith(_OURS)
        }
        if not self.servers:
            return settings | _environment(number, endpoints, attempt) | dict(self.environment)
        parts = ServerJob(tuple(endpoints[self.size :]), tuple(endpoints[: self.size]))
        again = {"TORCHELASTIC_RESTART_COUNT": str(attempt)}
        found = parts.environment(endpoints[number])
        return settings | found | again | dict(self.environment)


def _environment(rank: int, endpoints: Sequence[str], attempt: int) -> dict[str, str]:
    return {
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_CURRENT_ENDPOINT": endpoints[rank],
        "PADDLE_TRAINERS_NUM": str(len(endpoints)),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
    }
