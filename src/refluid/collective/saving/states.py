"""What a trainer has besides variables: random state, positions in data; as JSON has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from refluid.core.random import set_states, states
from refluid.feed.position import Position


class Placed(Protocol):
    """What knows where it is in its data: loaders and datasets."""

    def state_dict(self) -> dict[str, Any]:
        """Where it is."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Has the next pass begin there."""


def state_of(loaders: Sequence[Placed]) -> dict[str, Any]:
    """All of it."""
    return {
        "random": random_state(),
        "torch": torch.get_rng_state().numpy().tobytes().hex(),
        "devices": [[name, state.numpy().tobytes().hex()] for name, state in states()],
        "loaders": [one.state_dict() for one in loaders],
    }


def restore(state: Mapping[str, Any], loaders: Sequence[Placed]) -> None:
    """Puts all of it back."""
    set_random_state(state["random"])
    torch.set_rng_state(_bytes(state["torch"]))
    set_states([(name, _bytes(text)) for name, text in state["devices"]])
    for one, position in zip(loaders, state["loaders"], strict=True):
        one.load_state_dict(position)


def restore_parted(state: Mapping[str, Any], loaders: Sequence[Placed], share: float) -> None:
    """Of another number of trainers: where in its data one is that has another share of them.

    share: trainers that saved, divided by those of now. What isn't counted in batches begins its
    pass anew; random state is left as it is.
    """
    for one, position in zip(loaders, state["loaders"], strict=True):
        if "batch" in position:
            one.load_state_dict({**position, "batch": int(position["batch"] * share)})


def random_state() -> dict[str, Any]:
    """Of Python's and NumPy's random numbers."""
    now = Position()
    now.remember_random()
    return now.state_dict()


def set_random_state(state: Mapping[str, Any]) -> None:
    """Puts it back."""
    Position.load(state).restore_random()


def _bytes(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
