"""Fields of `DistributeTranspilerConfig` without effect where there are servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_BETWEEN_TRAINERS = "beside servers trainers exchange nothing with each other"
# Fields that change nothing in mode pserver, and why. (`runtime_split_send_recv` and
# `completely_not_async` only say again what the mode is.)
IDLE = {
    "print_log": "refluid inspect shows programs",
    "wait_port": "a trainer waits for servers when it first needs them",
    "nccl_comm_num": _BETWEEN_TRAINERS,
    "use_hierarchical_allreduce": _BETWEEN_TRAINERS,
    "hierarchical_allreduce_inter_nranks": _BETWEEN_TRAINERS,
    "collective_mode": _BETWEEN_TRAINERS,
}


def complaints(config: Any) -> Iterator[str]:
    """What to say of fields that were set and have no effect where there are servers."""
    for name, reason in IDLE.items():
        value = getattr(config, name)
        if value != getattr(type(config), name):
            yield f"DistributeTranspilerConfig.{name} = {value!r} has no effect here: {reason}"
